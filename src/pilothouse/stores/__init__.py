"""Stores of everything durable; one folder per database."""
