"""Pilothouse steers every coding agent you run from every chat you use.

Import nothing here: `pilothouse --version` must cost no more than the interpreter itself.
"""

__version__ = "0.1.0"
