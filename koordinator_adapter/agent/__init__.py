"""The part on each node."""
