"""The API server: the only package that imports ``kubernetes``."""
