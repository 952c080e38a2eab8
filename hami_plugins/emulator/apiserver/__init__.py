"""A Kubernetes API server in this process: real HTTP on 127.0.0.1, everything kept in memory.

It keeps the promises that controllers lean on (one counter of versions, watches from a version on, 409 on stale writes,
the three patch types, status apart from spec, bindings, graceful deletion) and breaks on request: see ``faults``.
It does not authenticate, runs no controllers and no admission webhooks, and knows no server-side apply.
"""

from hami_plugins.emulator.apiserver.faults import (
    Action,
    CloseWatch,
    Delay,
    Drop,
    Fault,
    Faults,
    Gone,
    Refuse,
)
from hami_plugins.emulator.apiserver.kinds import KOORDINATOR, VOLCANO, Kind
from hami_plugins.emulator.apiserver.server import ApiServer

__all__ = [
    "KOORDINATOR",
    "VOLCANO",
    "Action",
    "ApiServer",
    "CloseWatch",
    "Delay",
    "Drop",
    "Fault",
    "Faults",
    "Gone",
    "Kind",
    "Refuse",
]
