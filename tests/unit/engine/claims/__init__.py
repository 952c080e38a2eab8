"""Claims: which devices of which pools they get."""
