"""Judges a tool call before it runs: allow, deny, or ask a person. Only `bootstrap`, `cli` and `testing` import it."""
