"""The tools that agents call over MCP: to send messages, files and cards, to edit, to react, and to ask."""
