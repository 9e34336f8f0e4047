"""What an engine costs the gateway beside its own program: `bench/engines`."""
