"""What Telegram takes in one message, and gives in one file (Bot API 10.3). Text is counted in UTF-16 units, after its
markup is parsed."""

from __future__ import annotations

TEXT = 4096
CAPTION = 1024
ENTITIES = 100
CALLBACK_BYTES = 64

RICH_CHARS = 32_768
RICH_BLOCKS = 500
RICH_DEPTH = 16
RICH_COLUMNS = 20

UPLOAD_BYTES = 50_000_000
PHOTO_BYTES = 10_000_000
DOWNLOAD_BYTES = 20 << 20
"""What its server gives out (MAX_DOWNLOAD_FILE_SIZE). What it takes is only documented, as 50 MB and 10 MB: the
smaller reading of that is surely taken."""
URL_CHARS = 2048

AGAIN_ROOM = 64
"""Kept free in every message for the mark of a repeat."""
