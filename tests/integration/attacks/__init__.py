"""What a client without an identity can do to a port. Everything is bounded, and stays on this machine."""
