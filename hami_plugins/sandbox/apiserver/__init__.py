"""A Kubernetes API server in this process: real HTTP on 127.0.0.1, everything kept in memory.

It keeps the promises that controllers lean on (one counter of versions, watches from a version on, 409 on stale writes,
the three patch types, status apart from spec, bindings, graceful deletion) and breaks on request: see ``faults``.
Admission webhooks are called as the real server calls them (``webhooks``, ``calling``), by URL, with match
conditions in CEL (``conditions``).
It is not: it does not authenticate, runs no controllers (but ends namespaces and accepts definitions itself), knows no
services behind webhooks, no reinvocation and no admission policies, does not collect garbage by owners, knows no
server-side apply and no protobuf, shows tables of a few kinds with their own columns (``tables``), checks a small part
of the rules for specs, keeps members that Kubernetes' own kinds do not have inside of a spec whatever
``fieldValidation`` says, records no managed fields, and adds neither tolerations nor token volumes to pods nor the
not-ready taint to nodes.
"""

from hami_plugins.sandbox.apiserver.api import ClusterParts
from hami_plugins.sandbox.apiserver.faults import (
    Action,
    CloseWatch,
    Delay,
    DropConnection,
    Fault,
    Faults,
    Gone,
    Refuse,
)
from hami_plugins.sandbox.apiserver.kinds import KOORDINATOR, VOLCANO, ResourceKind
from hami_plugins.sandbox.apiserver.server import ApiServer

__all__ = [
    "KOORDINATOR",
    "VOLCANO",
    "Action",
    "ApiServer",
    "CloseWatch",
    "ClusterParts",
    "Delay",
    "DropConnection",
    "Fault",
    "Faults",
    "Gone",
    "Refuse",
    "ResourceKind",
]
