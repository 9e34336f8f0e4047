"""Public: conformance suites for engines, channels and stores, builders, and a fake clock."""
