"""Carrying out moves, one after another: check, evict, watch the pod land, stop at the first surprise.

Nothing can be held for a pod that does not exist yet. So only moves are carried out whose pods land as planned by
themselves, each is checked against the cluster of the moment before the eviction, and where it landed afterwards.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from hami_plugins.allocator.evictions import evict
from hami_plugins.cli.defrag_journal import DefragJournal, DefragMark, DefragStep, devices_of
from hami_plugins.engine.inventory import RecordReader
from hami_plugins.kube import paths
from hami_plugins.kube.port import Collection, KubeApi, Writing
from hami_plugins.kube.removal import PAUSE, find
from hami_plugins.model.pods import PodRecord
from hami_plugins.model.units import PodUid
from hami_plugins.wire import pods
from hami_plugins.wire.fields import Json
from hami_plugins.wire.lenient import inside, mappings, text, uid


class DefragOutcome(NamedTuple):
    """What became of a move, and whether the next one may begin."""

    number: int
    step: DefragStep
    words: str
    well: bool


class _SurpriseError(Exception):
    """Something is not as planned. ``evicted`` is whether the pod has left its place."""

    def __init__(self, words: str, *, evicted: bool) -> None:
        super().__init__(words)
        self.evicted = evicted


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveExecutor:
    """Carries out the moves of a journal.

    ``objection`` says why a pod that has not been evicted yet should not be, empty for none; it looks at the cluster of
    the moment. ``patience`` is how long (seconds) a pod may take to run again, ``evicting`` a client that tries once.
    """

    api: KubeApi
    evicting: Writing
    records: RecordReader
    objection: Callable[[DefragStep], str]
    patience: float
    sleep: Callable[[float], None] = time.sleep

    def carry_out(self, journal: DefragJournal) -> Iterator[DefragOutcome]:
        """The moves that are still to come, in their order; the first that does not end as planned is the last."""
        for number, step in enumerate(journal.steps):
            if journal.marks.get(number) is DefragMark.LANDED:
                continue
            try:
                words = self._moved(journal, number, step)
            except _SurpriseError as surprise:
                if surprise.evicted:
                    journal.ended(number, DefragMark.ENDED, str(surprise))
                yield DefragOutcome(number, step, str(surprise), well=False)
                return
            journal.ended(number, DefragMark.LANDED, words)
            yield DefragOutcome(number, step, words, well=True)

    def _moved(self, journal: DefragJournal, number: int, step: DefragStep) -> str:
        current = find(self.api, paths.pod(step.namespace, step.name))
        is_there = current is not None and uid(current) == step.uid
        if journal.marks.get(number) is None and not is_there:
            raise _SurpriseError("the pod is gone, so nothing is evicted; plan again", evicted=False)
        leaves = current is not None and pods.leaving(current)
        if journal.marks.get(number) is None and leaves:
            raise _SurpriseError("the pod is being deleted already; plan again", evicted=False)
        if current is not None and is_there and not leaves:
            self._evict(journal, number, step, current)
        return self._landed(step, journal.known[number])

    def _evict(self, journal: DefragJournal, number: int, step: DefragStep, current: Json) -> None:
        if pods.node_of(current) != step.source:
            raise _SurpriseError(f"the pod is on {pods.node_of(current)}, not on {step.source}", evicted=False)
        if why := self.objection(step):
            raise _SurpriseError(f"not evicted: {why}", evicted=False)
        record = PodRecord(namespace=step.namespace, name=step.name, uid=PodUid(step.uid))
        if refused := evict(self.evicting, record, dry=True):
            raise _SurpriseError(f"the eviction is refused: {refused}", evicted=False)
        journal.begun(number, map(uid, self._siblings(step)))
        if refused := evict(self.evicting, record):
            raise _SurpriseError(f"the eviction is refused: {refused}", evicted=False)

    def _landed(self, step: DefragStep, known: frozenset[str]) -> str:
        """Where the pod that is made anew has landed, as planned, in words."""
        waited = 0.0
        while True:
            siblings = self._siblings(step)
            made = [raw for raw in siblings if uid(raw) not in known and uid(raw) != step.uid]
            if len(made) > 1:
                names = ", ".join(sorted(_name(raw) for raw in made))
                raise _SurpriseError(f"its controller created several pods: {names}", evicted=True)
            here = any(uid(raw) == step.uid for raw in siblings)
            state = self._state(step, made[0]) if made else "its controller has not created it again"
            if not state and not here:
                return f"evicted from {step.source}, runs as {_name(made[0])} on {step.target}"
            if waited >= self.patience:
                state = state or "the evicted pod has not ended"
                raise _SurpriseError(f"{state} after {self.patience:.0f} s; --resume goes on waiting", evicted=False)
            self.sleep(PAUSE)
            waited += PAUSE

    def _state(self, step: DefragStep, raw: Json) -> str:
        """What the new pod still lacks, empty for nothing. Raises ``_SurpriseError`` where it landed elsewhere."""
        name, node = _name(raw), pods.node_of(raw)
        if not node:
            return f"{name} has no node"
        if node != step.target:
            raise _SurpriseError(f"{name} landed on {node} instead of {step.target}", evicted=True)
        record, _ = self.records.record(pods.pod(raw))
        devices = devices_of(record.allocations)
        if any(step.devices) and not any(devices):
            return f"{name} has no devices"
        if devices != step.devices:
            got, wanted = (_words(each) for each in (devices, step.devices))
            raise _SurpriseError(f"{name} got {got} on {node} instead of {wanted}", evicted=True)
        if pods.finished(raw):
            raise _SurpriseError(f"{name} has ended ({inside(raw, 'status').get('phase')})", evicted=True)
        return "" if _is_ready(raw) else f"{name} is not ready"

    def _siblings(self, step: DefragStep) -> list[Json]:
        """The pods of the controller."""
        collection = Collection(paths.pods(step.namespace), "Pod")
        return [raw for page in self.api.pages(collection) for raw in page if owner_of(raw) == step.owner]


def owner_of(raw: Json) -> str:
    """The UID of the controller of a pod; empty for none."""
    return next((text(each.get("uid")) for each in pods.owners(raw) if each.get("controller") is True), "")


def _is_ready(raw: Json) -> bool:
    status: Mapping[str, Any] = inside(raw, "status")
    ready = [text(each.get("status")) for each in mappings(status.get("conditions")) if each.get("type") == "Ready"]
    return status.get("phase") == "Running" and all(each == "True" for each in ready)


def _name(raw: Json) -> str:
    return text(inside(raw, "metadata").get("name"))


def _words(devices: tuple[tuple[str, ...], ...]) -> str:
    return ", ".join(each for container in devices for each in container) or "no devices"
