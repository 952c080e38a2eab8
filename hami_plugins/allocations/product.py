"""Per-vendor configuration of the allocator: names, keys, and a few rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from hami_plugins.allocations.planner import AllocationPlanner
from hami_plugins.engine.intake import PodInfo, Rules
from hami_plugins.engine.shortfall import CardShortage, NodeShortage
from hami_plugins.model.decisions import Refusal
from hami_plugins.model.nodes import NodeEntry
from hami_plugins.model.pods import Container, Pod
from hami_plugins.model.units import NodeName
from hami_plugins.model.vendor import VendorSpec
from hami_plugins.wire.admission_review import Answer
from hami_plugins.wire.fields import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """What an allocator is about.

    ``audit`` is the kind of a document of findings, ``word`` how reasons call the devices. ``marker`` is the
    annotation, with its value, of pods that must not be bound without an allocation, ``keys`` are all annotations of an
    allocation, and ``held`` those by which a bound pod is known to hold something.

    ``unregistered`` says that a node has no devices, and what is wrong with it, with what to do about it.

    ``kube_scheduler`` is whether calls of kube-scheduler's extender are answered, too, ``binds`` whether pods are bound
    for it, and ``groups`` whether Volcano's PodGroups are followed. ``planner`` makes what knows more than the devices
    of one node, one for each cache.

    ``mark`` answers the creation of a pod, ``jobs`` that of a Volcano Job (``None``: no webhook for those).
    ``blocking_reason`` says why a pod gets nothing whatever is free (empty: nothing is in its way). ``wording`` is a
    node's refusal in words of its own (empty: in the usual ones), which name neither the node nor pods; ``remedy`` is
    what to do about it. ``containers_of`` are the containers that an unreadable pod's annotations name.
    ``capped`` is whether node agents hand over at most what a container requests, so that more never counts.
    ``carried`` are annotations of another scheduler that name an allocation on the node, which is taken if it is right;
    it is given the pod and the Binding's annotations.
    """

    audit: str
    word: str
    spec: VendorSpec
    rules: Rules
    marker: tuple[str, str]
    keys: tuple[str, ...]
    held: tuple[str, ...]
    unregistered: Callable[[Sequence[str]], str]
    mark: Callable[[Json], Answer]
    containers_of: Callable[[Mapping[str, str]], tuple[Container, ...]]
    blocking_reason: Callable[[Pod], str] = lambda _pod: ""
    wording: Callable[[CardShortage | NodeShortage, Refusal], str] = lambda _reason, _refusal: ""
    remedy: Callable[[CardShortage | NodeShortage, NodeEntry | None], str] = lambda _reason, _entry: ""
    jobs: Callable[[Json], Answer] | None = None
    kube_scheduler: bool = False
    binds: bool = False
    groups: bool = False
    capped: bool = False
    planner: Callable[[], AllocationPlanner] = AllocationPlanner
    carried: Callable[[NodeName, PodInfo, Mapping[str, str]], Mapping[str, str] | None] = (
        lambda _node, _intake, _annotations: None
    )
