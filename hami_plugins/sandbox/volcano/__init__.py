"""A stand-in for Volcano 1.14.1: its controllers as far as jobs need them, and its scheduler's writes.

Decisions are the core's own (``hami_plugins.plan``), or an extender's; gangs start whole or not at all.
"""

from hami_plugins.sandbox.volcano.extender import ExtenderArguments
from hami_plugins.sandbox.volcano.volcano import EmulatedVolcano

__all__ = ["EmulatedVolcano", "ExtenderArguments"]
