"""Volcano's enqueue and allocate cycle: queues, shares, usage, gangs, turns, and what releases do otherwise."""
