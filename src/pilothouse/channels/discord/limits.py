"""What Discord takes in one message. Text is counted in UTF-16 units: never less than what Discord counts."""

from __future__ import annotations

TEXT = 2000
TARGET = 1900
"""What we fill of it: the rest is for the mark of a repeat."""
PARTS = 10
"""An answer that would be more messages than this is a file."""
FILES = 10
ROWS = 5
BUTTONS = 5
"""In one row."""
OPTIONS = 25
"""Of one select."""
LABEL = 80
"""Of a button, and half of what an option of a select may say: two lines on a phone."""
OPTION_LABEL = 100
PLACEHOLDER = 150
KEY = 100
"""Characters of a component's custom id."""
UPLOAD_BYTES = 10 << 20
"""Of each file, where a guild has no more. An answer that is a file is less: a turn's text is bound long before."""
REQUEST_BYTES = 24 << 20
"""What we fill of the 25 MiB that Discord takes in one request: the rest is for the words. One file may be larger where a
guild's limit is."""
FILE_NAME = 100
FILES_ROOM = 250
"""Kept free in a message with files, for a word about one that is too large."""
FORM_TITLE = 45
