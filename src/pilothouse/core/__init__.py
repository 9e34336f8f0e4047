"""The vocabulary: values and pure rules. No I/O, no clock, no logging, no vendor SDK."""
