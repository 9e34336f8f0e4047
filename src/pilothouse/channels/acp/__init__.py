"""Pilothouse as an agent of the Agent Client Protocol, for editors: on standard input and output."""
