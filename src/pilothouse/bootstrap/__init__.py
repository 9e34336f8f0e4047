"""The composition root: builds a gateway from the configuration. The only package that may import every other."""
