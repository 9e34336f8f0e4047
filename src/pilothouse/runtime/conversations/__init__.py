"""Conversations: addresses, bindings, sessions, and what waits. Never asks people and never sends."""
