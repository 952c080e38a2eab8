"""The live part of ``demo``: an embedded cluster on this machine, and the real node agents as processes on it."""
