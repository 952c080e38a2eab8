"""The calls of Volcano's plugin ``extender`` and the replies that it understands (``trials.md`` V12).

A predicate call carries the whole node with all pods on it, tens of kilobytes, of which only the name is wanted, and a
prioritize call carries all nodes that are left: the body is cut where Volcano's writer puts the nodes, and only the
task is parsed. A body that is written otherwise is parsed as a whole.

Of a body that arrives in parts, ``OneNode`` and ``ManyNodes`` keep what has to be read; the rest, a hundred times as
large, is dropped as it comes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple

import orjson

from hami_plugins.errors import WireError
from hami_plugins.model.units import NodeName, PodUid
from hami_plugins.wire import documents, fields
from hami_plugins.wire.fields import Json

PLACE: Final = "extender call:"

SUCCESS: Final = 0
ERROR: Final = 1
UNSCHEDULABLE: Final = 2
UNRESOLVABLE: Final = 3
"""Codes of a predicate's reply. A reason with ``SUCCESS`` counts as ``ERROR``.

A node with ``UNRESOLVABLE`` is not looked at by the actions ``preempt`` and ``reclaim``.
"""

_JUDGED: Final = 1
"""The status of a reply about victims that counts; 0 abstains, and then other plugins decide alone."""

_BEGIN: Final = b'{"task":'
_NODE: Final = b',"node":{"Name":"'
_NODES: Final = b',"nodes":['
_EACH: Final = re.compile(
    rb'\{"Name":"([^"\\]{1,253})","Node":\{(?:"kind":"Node","apiVersion":"v1",)?"metadata":\{"name":"\1"'
)
"""The beginning of a node: nothing else in a call has its own name twice."""

_LONGEST: Final = 1024
"""Bytes within which the beginning of a node ends, whatever it is called (at most 253 bytes, twice)."""

_END: Final = b'"'
_SHOWN: Final = 80


class TaskStatus(IntEnum):
    """Where a session has got to with a pod; Volcano 1.14 to 1.16 number them so."""

    PENDING = 1
    ALLOCATED = 2
    PIPELINED = 4
    BINDING = 8
    BOUND = 16
    RUNNING = 32
    RELEASING = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """The pod that a call is about. ``node`` is where the session puts it, empty before; ``pod`` is the Pod object.

    ``job`` is Volcano's name for its PodGroup, empty where a call has none. ``status`` is a ``TaskStatus``, or 0 where
    a call has none. ``evicts`` says that pods were evicted for it in this session. ``undone`` is the status that
    the session takes back (``LastTransaction``), 0 where it takes nothing back.
    """

    uid: PodUid
    namespace: str
    name: str
    node: NodeName
    pod: Json
    job: str = ""
    status: int = 0
    evicts: bool = False
    undone: int = 0


class Evictee(NamedTuple):
    """A running pod that a session may evict; ``job`` is Volcano's name for its PodGroup."""

    uid: PodUid
    namespace: str
    name: str
    node: NodeName
    job: str


class EvictionCall(NamedTuple):
    """A ``preemptable`` or ``reclaimable`` call: who needs room, and who may go. All who may go are on one node.

    Without any of them nothing in the call names a node.
    """

    evictor: Task
    evictees: tuple[Evictee, ...]


class OnNode(NamedTuple):
    """A predicate call: the task as text, equal texts for equal tasks, and the name of the node."""

    task: bytes
    node: NodeName


class OnNodes(NamedTuple):
    """A prioritize call: the task as text, the same as in the predicate calls before it, and the names of the nodes."""

    task: bytes
    nodes: tuple[NodeName, ...]


class OneNode:
    """Keeps of a predicate call that arrives in parts what ``predicate`` reads: all up to the name of the node."""

    __slots__ = ("_done", "_from", "_text")

    def __init__(self) -> None:
        self._text = bytearray()
        self._from = 0
        self._done = False

    @property
    def size(self) -> int:
        """Bytes that are kept."""
        return len(self._text)

    def add(self, part: bytes) -> None:
        """The next part of the body."""
        if self._done:
            return
        text = self._text
        text += part
        at = text.find(_NODE, self._from)
        if at < 0:
            self._from = max(0, len(text) - len(_NODE))
            return
        self._from = at
        begin = at + len(_NODE)
        end = text.find(_END, begin)
        if end > begin and b"\\" not in text[begin:end] and text.startswith(_BEGIN):
            self._done = True
            del text[end + 1 :]

    def text(self) -> bytes:
        """What was kept, for ``predicate``."""
        return bytes(self._text)


class ManyNodes:
    """Keeps of a prioritize call that arrives in parts what ``prioritize`` reads: the task, and where nodes begin."""

    __slots__ = ("_from", "_nodes", "_rest", "_text")

    def __init__(self) -> None:
        self._text = bytearray()
        self._from = 0
        self._nodes: bool | None = None
        self._rest = b""

    @property
    def size(self) -> int:
        """Bytes that are kept."""
        return len(self._text) + len(self._rest)

    def add(self, part: bytes) -> None:
        """The next part of the body."""
        if self._nodes:
            self._look(self._rest + part)
            return
        self._text += part
        if self._nodes is None:
            self._begin()

    def text(self) -> bytes:
        """What was kept, for ``prioritize``."""
        return bytes(self._text)

    def _begin(self) -> None:
        text = self._text
        at = text.find(_NODES, self._from)
        if at < 0:
            self._from = max(0, len(text) - len(_NODES))
            return
        self._from = at
        begin = at + len(_NODES)
        self._nodes = text.startswith(_BEGIN) and _EACH.match(text, begin) is not None
        if self._nodes:
            rest = bytes(text[begin:])
            del text[begin:]
            self._look(rest)
        elif len(text) - begin < _LONGEST:
            self._nodes = None  # the first node may not be there yet

    def _look(self, rest: bytes) -> None:
        end = 0
        for found in _EACH.finditer(rest):
            self._text += found[0]
            end = found.end()
        self._rest = rest[max(end, len(rest) - _LONGEST) :]


def predicate(body: bytes) -> OnNode:
    """What a predicate call asks. Raises ``WireError`` for another body."""
    at = body.find(_NODE)
    # In a text each quote has a backslash before it, so what is found is the member itself.
    if at > 0 and body.startswith(_BEGIN):
        begin = at + len(_NODE)
        name = body[begin : body.find(_END, begin)]
        if name and b"\\" not in name:
            return OnNode(body[len(_BEGIN) : at], NodeName(_text(name)))
    call = _loaded(body)
    task = fields.member(call, "task", PLACE)
    node = fields.member(call, "node", PLACE)
    return OnNode(orjson.dumps(task), NodeName(fields.needed(node, "Name", f"{PLACE} node")))


def task(text: bytes) -> Task:
    """The task of a text that ``predicate`` or ``prioritize`` found. Raises ``WireError``."""
    return _task(_loaded(text), f"{PLACE} task")


def prioritize(body: bytes) -> OnNodes:
    """The task and the nodes that are to be ranked. Raises ``WireError``."""
    at = body.find(_NODES)
    if at > 0 and body.startswith(_BEGIN) and _EACH.match(body, at + len(_NODES)):
        found = _EACH.finditer(body, at + len(_NODES))
        return OnNodes(body[len(_BEGIN) : at], tuple(NodeName(_text(each[1])) for each in found))
    call = _loaded(body)
    names = []
    for number, raw in enumerate(fields.items(call, "nodes", PLACE)):
        place = f"{PLACE} nodes[{number}]"
        names.append(NodeName(fields.needed(fields.whole(raw, place), "Name", place)))
    return OnNodes(orjson.dumps(fields.member(call, "task", PLACE)), tuple(names))


def event(body: bytes) -> Task:
    """The task of an ``allocate`` or ``deallocate`` call. Raises ``WireError``."""
    return _task(fields.member(_loaded(body), "task", PLACE), f"{PLACE} task")


def evictions(body: bytes) -> EvictionCall:
    """What a ``preemptable`` or ``reclaimable`` call asks. Raises ``WireError``."""
    call = _loaded(body)
    evictor = _task(fields.member(call, "evictor", PLACE), f"{PLACE} evictor")
    found = [
        _evictee(fields.whole(raw, place), place)
        for place, raw in (
            (f"{PLACE} evictees[{number}]", raw) for number, raw in enumerate(fields.items(call, "evictees", PLACE))
        )
    ]
    if len({each.node for each in found}) > 1:
        raise WireError(f"{PLACE} evictees", ", ".join(sorted({each.node for each in found})), "expected one node")
    return EvictionCall(evictor, tuple(found))


def predicate_reply(reason: str = "", *, code: int = UNSCHEDULABLE) -> bytes:
    """The reply to a predicate call; without a reason the node takes the pod."""
    return orjson.dumps({"status": reason, "code": code if reason else SUCCESS})


def prioritize_reply(scores: Mapping[NodeName, float]) -> bytes:
    """The reply to a prioritize call. Nodes that are missing have the score 0."""
    return orjson.dumps({"nodeScore": dict(scores), "errorMessage": ""})


def event_reply(error: str = "") -> bytes:
    """The reply to ``allocate``, ``deallocate`` and, with an error, ``prioritize``; then Volcano undoes the try."""
    return orjson.dumps({"errorMessage": error})


def evictions_reply(victims: Iterable[PodUid] = ()) -> bytes:
    """The reply to ``preemptable`` and ``reclaimable``: the pods to evict. An empty list evicts none.

    Volcano looks UIDs up among the answers of the plugins before, so that the extender has to be the last of its tier.
    """
    return orjson.dumps({"status": _JUDGED, "victims": [{"UID": uid} for uid in victims]})


def _evictee(body: Json, place: str) -> Evictee:
    return Evictee(
        uid=PodUid(fields.needed(body, "UID", place)),
        namespace=fields.needed(body, "Namespace", place),
        name=fields.needed(body, "Name", place),
        node=NodeName(fields.needed(body, "NodeName", place)),
        job=fields.text(body, "Job", place),
    )


def _task(body: Json, place: str) -> Task:
    return Task(
        uid=PodUid(fields.needed(body, "UID", place)),
        namespace=fields.needed(body, "Namespace", place),
        name=fields.needed(body, "Name", place),
        node=NodeName(fields.text(body, "NodeName", place)),
        pod=fields.member(body, "Pod", place),
        job=fields.text(body, "Job", place),
        status=fields.natural(body, "Status", place),
        evicts=fields.flag(body, "EvictionOccurred", place),
        undone=fields.natural(fields.member(body, "LastTransaction", place), "Status", f"{place}.LastTransaction"),
    )


def _loaded(body: bytes) -> Json:
    return fields.whole(documents.load(PLACE.rstrip(":"), body), PLACE)


def _text(name: bytes) -> str:
    try:
        return name.decode()
    except UnicodeDecodeError:
        raise WireError(f"{PLACE} node.Name", repr(name[:_SHOWN]), "not UTF-8") from None
