"""The HTTP edge that all processes share."""
