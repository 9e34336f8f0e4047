"""Transcripts: what was said and done in each session, kept to read, to export and to search."""
