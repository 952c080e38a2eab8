"""The names of a vendor: extended resources and annotation keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

SHARED_LOCK: Final = "hami.io/mutex.lock"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceNames:
    """The extended resources of a vendor; an empty name means that the vendor has no such resource.

    ``older`` are names under which nodes offered devices before, and pods still ask for them.
    """

    count: str
    memory: str = ""
    memory_percentage: str = ""
    cores: str = ""
    priority: str = ""
    older: tuple[str, ...] = ()

    def all(self) -> tuple[str, ...]:
        """Every name that is set."""
        names = (self.count, self.memory, self.memory_percentage, self.cores, self.priority, *self.older)
        return tuple(name for name in names if name)


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnotationKeys:
    """Every annotation key of a vendor; empty means that there is none.

    ``lock`` is on nodes; its value names the pod that has it if ``lock_names_pod``, and another client's lock counts as
    left behind after ``lock_expiry`` seconds (0: after those that the operator sets).

    ``more`` has, by container name, what ``allocated`` has no place for. ``inputs`` are further keys that it reads from
    pods or nodes, ``of_jobs`` those among them that it also reads from a pod's Volcano Job, ``extra`` those that its
    ``annotate`` hook writes. ``of_webhook`` are those that a webhook writes on new pods, for their device plugin: they
    belong to the request, and stay whatever is allocated.
    """

    allocated: str
    to_allocate: str = ""
    more: str = ""
    register: str = ""
    handshake: str = ""
    pair_scores: str = ""
    use_ids: tuple[str, ...] = ()
    avoid_ids: tuple[str, ...] = ()
    use_models: str = ""
    avoid_models: str = ""
    mode: str = ""
    lock: str = SHARED_LOCK
    lock_names_pod: bool = True
    lock_expiry: int = 0
    inputs: tuple[str, ...] = ()
    of_jobs: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()
    of_webhook: tuple[str, ...] = ()

    def all(self) -> tuple[str, ...]:
        """Every key that is set."""
        single = (
            self.allocated,
            self.to_allocate,
            self.more,
            self.register,
            self.handshake,
            self.pair_scores,
            self.use_models,
            self.avoid_models,
            self.mode,
            self.lock,
        )
        keys = (*single, *self.use_ids, *self.avoid_ids, *self.inputs, *self.extra, *self.of_webhook)
        return tuple(dict.fromkeys(key for key in keys if key))

    def written(self) -> tuple[str, ...]:
        """The keys of an allocation: a scheduler or an agent writes them on pods, and no user does."""
        return tuple(key for key in (self.allocated, self.to_allocate, self.more, *self.extra) if key)
