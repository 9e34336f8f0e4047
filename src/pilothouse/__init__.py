"""Pilothouse steers your coding agent from your phone, your team's chat and your terminal.

Import nothing here: `pilothouse --version` must cost no more than the interpreter itself.
"""

__version__ = "0.1.0"
