"""Asks: the only room that writes ask rows. It knows neither budget nor admission."""
