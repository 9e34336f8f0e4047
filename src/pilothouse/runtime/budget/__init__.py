"""Money: what was spent, what is reserved, and the ask when a cap is reached."""
