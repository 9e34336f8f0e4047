"""One folder per surface; none knows another."""
