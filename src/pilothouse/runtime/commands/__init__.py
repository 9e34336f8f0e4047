"""Commands of a chat. They may change rows, and never await a platform inside a transaction."""
