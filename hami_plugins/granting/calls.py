"""What schedulers may ask over plain HTTP while this replica is the active one, and who answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

from hami_plugins.granting.bindings import Bindings
from hami_plugins.granting.extender import Extender
from hami_plugins.granting.kube_scheduler import SchedulerExtender
from hami_plugins.granting.term import Term
from hami_plugins.web.documents import MAX_BODY, waiting

EXTENDER_PATH: Final = "/extender"
"""Volcano's plugin ``extender`` calls below this path."""

SCHEDULER_PATH: Final = "/scheduler"
"""kube-scheduler's extender calls below this path."""

LARGEST_RANKING: Final = 64 * 1024 * 1024
"""Bytes: a call that is about many nodes carries all of them, each with its pods."""

LARGEST_QUESTION: Final = 16 * 1024 * 1024
"""Bytes: a call about one node carries its pods, about 5 kB each. Every other call is about one pod."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Office:
    """Who answers while the lease is held."""

    term: Term
    bindings: Bindings
    extender: Extender
    scheduler: SchedulerExtender


class Call(NamedTuple):
    """A path, the name that its metrics carry, the answer to a body, and the most bytes of that."""

    path: str
    name: str
    answer: Callable[[Office, bytes], bytes]
    limit: int = MAX_BODY


VOLCANO: Final = (
    Call(f"{EXTENDER_PATH}/predicate", "predicate", lambda o, body: o.extender.predicate(body), LARGEST_QUESTION),
    Call(f"{EXTENDER_PATH}/prioritize", "prioritize", lambda o, body: o.extender.prioritize(body), LARGEST_RANKING),
    Call(f"{EXTENDER_PATH}/allocate", "allocate", lambda o, body: o.extender.allocate(body)),
    Call(f"{EXTENDER_PATH}/deallocate", "deallocate", lambda o, body: o.extender.deallocate(body)),
    Call(f"{EXTENDER_PATH}/onSessionOpen", "onSessionOpen", lambda _o, _body: b"{}", LARGEST_RANKING),
    Call(f"{EXTENDER_PATH}/onSessionClose", "onSessionClose", lambda _o, _body: b"{}"),
)

KUBE_SCHEDULER: Final = (
    Call(f"{SCHEDULER_PATH}/filter", "filter", lambda o, body: o.scheduler.filter(body), LARGEST_RANKING),
    Call(f"{SCHEDULER_PATH}/prioritize", "rank", lambda o, body: o.scheduler.prioritize(body), LARGEST_RANKING),
    # It waits for the API server, after it has granted: so it begins in a thread that may wait.
    Call(f"{SCHEDULER_PATH}/bind", "bind", waiting(lambda o, body: o.scheduler.bind(body))),
)
