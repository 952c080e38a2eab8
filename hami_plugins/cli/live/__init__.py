"""The live part of ``demo``: an embedded cluster on this machine, and our real programs as processes beside it."""
