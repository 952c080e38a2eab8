"""A process's own logs and metrics."""
