"""A client of MCP servers, for engines without one of their own, and for `pilothouse mcp`."""
