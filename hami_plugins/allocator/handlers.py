"""What schedulers may ask over plain HTTP while this replica is the active one, and who answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

from hami_plugins.allocator.bindings import Bindings
from hami_plugins.allocator.kube_extender import SchedulerExtender
from hami_plugins.allocator.session import LeaderSession
from hami_plugins.allocator.volcano_extender import Extender
from hami_plugins.web.bodies import Collector, Nothing, Whole
from hami_plugins.web.documents import MAX_BODY, MOST_VALUES, waiting
from hami_plugins.wire.volcano_extender import ManyNodes, OneNode

EXTENDER_PATH: Final = "/extender"
"""Volcano's plugin ``extender`` calls below this path."""

SCHEDULER_PATH: Final = "/scheduler"
"""kube-scheduler's extender calls below this path."""

LONGEST_RANKING: Final = 64 * 1024 * 1024
"""Bytes: a call of Volcano's that is about many nodes carries all of them, each with its pods."""

LONGEST_QUESTION: Final = 16 * 1024 * 1024
"""Bytes: a call of Volcano's about one node carries its pods, about 5 kB each. Every other call is about one pod."""

LARGEST_READ: Final = 2 * 1024 * 1024
"""Bytes of what is read of a call: a pod, and the names of 15,000 nodes."""

LARGEST_WHOLE: Final = 16 * 1024 * 1024
"""Bytes of a call that carries whole nodes, of 5 to 15 kB each, or all pods of a node that may be evicted."""

WHOLE_VALUES: Final = 1_500_000
"""Values in such a call: a node has some hundreds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Handlers:
    """The handlers that answer while the lease is held."""

    session: LeaderSession
    bindings: Bindings
    extender: Extender
    scheduler: SchedulerExtender


class HandledPath(NamedTuple):
    """A path, the name that its metrics carry, the answer to a body, and what is kept of it: see ``document_route``.

    One that ``binds`` may wait long, for device plugins.
    """

    path: str
    name: str
    answer: Callable[[Handlers, bytes], bytes]
    limit: int = MAX_BODY
    longest: int | None = None
    collecting: Callable[[], Collector] = Whole
    binds: bool = False
    values: int = MOST_VALUES


VOLCANO: Final = (
    HandledPath(
        f"{EXTENDER_PATH}/predicate",
        "predicate",
        lambda o, body: o.extender.predicate(body),
        LARGEST_READ,
        LONGEST_QUESTION,
        OneNode,
    ),
    HandledPath(
        f"{EXTENDER_PATH}/prioritize",
        "prioritize",
        lambda o, body: o.extender.prioritize(body),
        LARGEST_READ,
        LONGEST_RANKING,
        ManyNodes,
    ),
    HandledPath(f"{EXTENDER_PATH}/allocate", "allocate", lambda o, body: o.extender.allocate(body)),
    HandledPath(f"{EXTENDER_PATH}/deallocate", "deallocate", lambda o, body: o.extender.deallocate(body)),
    HandledPath(
        f"{EXTENDER_PATH}/onSessionOpen", "onSessionOpen", lambda _o, _body: b"{}", 0, LONGEST_RANKING, Nothing
    ),
    HandledPath(
        f"{EXTENDER_PATH}/preemptable",
        "preemptable",
        lambda o, body: o.extender.preemptable(body),
        LARGEST_WHOLE,
        values=WHOLE_VALUES,
    ),
    HandledPath(
        f"{EXTENDER_PATH}/reclaimable",
        "reclaimable",
        lambda o, body: o.extender.reclaimable(body),
        LARGEST_WHOLE,
        values=WHOLE_VALUES,
    ),
    HandledPath(f"{EXTENDER_PATH}/onSessionClose", "onSessionClose", lambda o, body: o.extender.closed(body)),
)

KUBE_SCHEDULER: Final = (
    HandledPath(
        f"{SCHEDULER_PATH}/filter",
        "filter",
        lambda o, body: o.scheduler.filter(body),
        LARGEST_WHOLE,
        values=WHOLE_VALUES,
    ),
    HandledPath(
        f"{SCHEDULER_PATH}/prioritize",
        "rank",
        lambda o, body: o.scheduler.prioritize(body),
        LARGEST_WHOLE,
        values=WHOLE_VALUES,
    ),
    HandledPath(
        f"{SCHEDULER_PATH}/preempt", "preempt", waiting(lambda o, body: o.scheduler.preempt(body)), LARGEST_WHOLE
    ),
    # It waits for the API server, after it has allocated: so it begins in a thread that may wait.
    HandledPath(f"{SCHEDULER_PATH}/bind", "bind", waiting(lambda o, body: o.scheduler.bind(body)), binds=True),
)
