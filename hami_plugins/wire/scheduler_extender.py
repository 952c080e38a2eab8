"""The calls of kube-scheduler's extenders and the replies that it understands (``k8s.io/kube-scheduler/extender/v1``).

Go's structs have no JSON tags there: members are written as fields are called, and read whatever their case.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import filterfalse
from typing import Any, Final, NamedTuple, cast

import orjson

from hami_plugins.model.units import NodeName, PodUid
from hami_plugins.wire import documents, fields
from hami_plugins.wire.fields import Json

PLACE: Final = "extender call:"

MOST: Final = 10
"""The highest score that an extender may give a node (``MaxExtenderPriority``)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """A filter or prioritize call: the Pod, and the nodes in question.

    ``objects`` are the Nodes themselves, where the scheduler sends them, because it was not told that names will do.
    """

    pod: Json
    names: tuple[NodeName, ...]
    objects: tuple[Json, ...] | None = None

    @property
    def given(self) -> Mapping[NodeName, Json]:
        """The Nodes by their names, where the scheduler sent them."""
        return dict(zip(self.names, self.objects or (), strict=False))


class Unfit(NamedTuple):
    """Why a node does not take the pod; ``lasting`` where it would not if all of its pods were evicted either."""

    text: str
    lasting: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ToBind:
    """A bind call."""

    namespace: str
    name: str
    uid: PodUid
    node: NodeName


@dataclass(frozen=True, slots=True, kw_only=True)
class PreemptionCall:
    """A preempt call: the Pod, and by node the UIDs of the pods that the scheduler would evict there.

    ``budgets`` is by node how many PodDisruptionBudgets that would break.
    """

    pod: Json
    victims: Mapping[NodeName, tuple[PodUid, ...]]
    budgets: Mapping[NodeName, int]


def preemption(body: bytes) -> PreemptionCall:
    """What a preempt call asks (``ExtenderPreemptionArgs``). Raises ``WireError`` for another body."""
    call = _loaded(body)
    pod = fields.member(call, "pod", PLACE)
    if not pod:
        raise fields.wrong(f"{PLACE} Pod", None, "a pod")
    whole = call.get("nodenametometavictims") is None
    member = "nodenametovictims" if whole else "nodenametometavictims"
    victims: dict[NodeName, tuple[PodUid, ...]] = {}
    budgets: dict[NodeName, int] = {}
    for name, listed in fields.member(call, member, PLACE).items():
        place = f"{PLACE} {member}[{name}]"
        of_node = documents.folded(listed, place)
        budgets[NodeName(name)] = fields.number(of_node, "numpdbviolations", place)
        victims[NodeName(name)] = tuple(
            _uid_of(each, f"{place}.Pods[{at}]", whole=whole)
            for at, each in enumerate(fields.items(of_node, "pods", place))
        )
    return PreemptionCall(pod=pod, victims=victims, budgets=budgets)


def preemption_reply(victims: Mapping[NodeName, Collection[PodUid]], budgets: Mapping[NodeName, int]) -> bytes:
    """The pods to evict by node (``ExtenderPreemptionResult``); an omitted node stops being a candidate."""
    return orjson.dumps(
        {
            "NodeNameToMetaVictims": {
                node: {"Pods": [{"UID": uid} for uid in uids], "NumPDBViolations": budgets.get(node, 0)}
                for node, uids in victims.items()
            }
        }
    )


def candidates(body: bytes) -> Candidates:
    """What a filter or prioritize call asks. Raises ``WireError`` for another body."""
    call = _loaded(body)
    pod = fields.member(call, "pod", PLACE)
    if not pod:
        raise fields.wrong(f"{PLACE} Pod", None, "a pod")
    if call.get("nodenames") is not None:
        return Candidates(pod=pod, names=cast("tuple[NodeName, ...]", tuple(fields.texts(call, "nodenames", PLACE))))
    listed = fields.items(fields.member(call, "nodes", PLACE), "items", f"{PLACE} Nodes")
    objects = tuple(fields.whole(each, f"{PLACE} Nodes.items[{at}]") for at, each in enumerate(listed))
    return Candidates(pod=pod, names=tuple(map(_name_of, objects)), objects=objects)


def to_bind(body: bytes) -> ToBind:
    """What a bind call asks. Raises ``WireError``."""
    call = _loaded(body)
    return ToBind(
        namespace=fields.needed(call, "podnamespace", PLACE),
        name=fields.needed(call, "podname", PLACE),
        uid=PodUid(fields.needed(call, "poduid", PLACE)),
        node=NodeName(fields.needed(call, "node", PLACE)),
    )


def filter_reply(asked: Candidates, refused: Mapping[NodeName, Unfit]) -> bytes:
    """The nodes that take the pod, in the form in which they came, and why the others do not.

    A scheduler considers preemption on the nodes of ``FailedNodes`` alone.
    """
    failed = {name: text for name, (text, lasts) in refused.items() if not lasts}
    lasting = {name: text for name, (text, lasts) in refused.items() if lasts}
    reply: dict[str, Any] = {
        "Nodes": None,
        "NodeNames": None,
        "FailedNodes": failed or None,
        "FailedAndUnresolvableNodes": lasting or None,
        "Error": "",
    }
    if asked.objects is None:
        reply["NodeNames"] = list(filterfalse(refused.__contains__, asked.names))
    else:
        left = [each for name, each in zip(asked.names, asked.objects, strict=True) if name not in refused]
        reply["Nodes"] = {"metadata": {}, "items": left}
    return orjson.dumps(reply)


def filter_error(error: str) -> bytes:
    """The reply to a call that cannot be answered: the pod is tried again later."""
    nothing = dict.fromkeys(("Nodes", "NodeNames", "FailedNodes", "FailedAndUnresolvableNodes"))
    return orjson.dumps({**nothing, "Error": error})


def prioritize_reply(names: Sequence[NodeName], scores: Mapping[NodeName, float]) -> bytes:
    """Scores from 0 to ``MOST``: the lowest of them all is 0, and what has none is too."""
    different = set(scores.values())
    low, high = min(different, default=0.0), max(different, default=0.0)
    spread = (high - low) or 1.0
    whole = {score: round(MOST * (score - low) / spread) for score in different}
    return orjson.dumps([{"Host": name, "Score": whole[scores[name]] if name in scores else 0} for name in names])


def bind_reply(error: str = "") -> bytes:
    """The reply to a bind call."""
    return orjson.dumps({"Error": error})


def _uid_of(raw: object, place: str, *, whole: bool) -> PodUid:
    pod = fields.whole(raw, place)
    if whole:
        return PodUid(fields.needed(fields.member(pod, "metadata", place), "uid", f"{place}.metadata"))
    return PodUid(fields.needed(documents.folded(pod, place), "uid", place))


def _name_of(node: Json) -> NodeName:
    return NodeName(fields.text(fields.member(node, "metadata", f"{PLACE} node"), "name", f"{PLACE} node.metadata"))


def _loaded(body: bytes) -> Json:
    """The call, with the names of its own members in small letters."""
    return documents.folded(documents.load(PLACE.rstrip(":"), body), PLACE)
