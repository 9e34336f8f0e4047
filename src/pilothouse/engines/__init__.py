"""One folder per coding agent; none knows another."""
