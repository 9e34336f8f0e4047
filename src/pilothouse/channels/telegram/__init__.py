"""Telegram as a channel. Importing this costs nothing: the HTTP library is imported when a client is opened."""
