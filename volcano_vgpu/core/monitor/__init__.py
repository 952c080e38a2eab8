"""What was read of containers' use, joined and judged."""
