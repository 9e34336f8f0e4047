"""Measures what the project promises. Each module measures one thing; `figures.py` lists them with their bounds."""
