"""The composition root: configuration → objects → gateway. The only package that sees everything."""
