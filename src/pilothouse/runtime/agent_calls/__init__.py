"""The effects of agents' tool calls: the caller, messages, questions, files."""
