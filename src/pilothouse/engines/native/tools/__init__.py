"""The tools of the native agent, one file each."""
