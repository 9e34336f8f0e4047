"""`python -m pilothouse`."""

import sys

from pilothouse.cli import main

if __name__ == "__main__":
    sys.exit(main())
