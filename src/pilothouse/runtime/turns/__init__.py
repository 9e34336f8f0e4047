"""Turns: the only room that talks to an engine and that moves a turn."""
