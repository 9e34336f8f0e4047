"""Public: conformance suites for engines, channels and stores, builders, a fixed policy, and a fake clock."""
