"""The inbox: the only room that puts rows that people made."""
