"""The adapter against an embedded API server."""
