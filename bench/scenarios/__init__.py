"""Scenarios that every real engine must pass behind a real gateway: `bench/engines --full`."""
