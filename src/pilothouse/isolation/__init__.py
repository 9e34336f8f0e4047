"""The jail around everything that runs for an agent: what it can touch is held by the kernel, not by rules."""
