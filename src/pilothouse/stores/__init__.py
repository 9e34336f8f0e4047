"""Where truth is kept; one folder per database."""
