"""Shared accelerators on Kubernetes: the device core, the allocator, and the command line.

Programs use ``hami_plugins.api``.
"""

__version__ = "0.1.0"
