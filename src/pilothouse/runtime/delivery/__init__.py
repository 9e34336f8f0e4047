"""Delivery: the only room that sends, edits and deletes on a channel."""
