"""JSON-RPC 2.0 on standard input and output, for programs that bring their own interface."""
