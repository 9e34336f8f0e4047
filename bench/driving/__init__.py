"""What driving the real `claude` costs: `bench/claude`."""
