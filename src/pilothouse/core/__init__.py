"""Core: values, pure rules and ports. No I/O, no clock, no logging, no vendor SDK."""
