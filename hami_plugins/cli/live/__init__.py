"""The live part of ``demo``: an embedded cluster on this machine, with the real programs as processes."""
