"""The verbs: one file, one verb. Imports core only."""
