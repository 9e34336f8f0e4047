"""The tools that agents call over MCP: to send messages, files and cards, to edit and react, to ask people, to schedule tasks,
and to reach other agents."""
