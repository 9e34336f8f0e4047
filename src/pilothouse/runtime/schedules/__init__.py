"""Schedules: operations on them, the arithmetic of their slots, and the task that runs what is due."""
