"""One gateway, in rooms. Imports `core` only; `docs/architecture.md` says which room may import which."""
