"""Ways in which the owner of a pod forges or raises its allocation, as data for an embedded and for a real cluster.

Texts name ``{own}`` (the card that the pod was bound with; before that, the first card of the node), ``{other}`` (a
healthy card that it was not bound with), ``{sick}`` (an unhealthy card) and ``{node}``. Every pod requests one card,
``MEMORY`` MiB and ``CORES`` % of its cores.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

MEMORY, CORES = 1000, 10
IDS, LEFT = "volcano.sh/vgpu-ids-new", "volcano.sh/devices-to-allocate"
NODE, MORE = "volcano.sh/vgpu-node", "hami-plugins.io/vgpu-more-ids"
PHASE, BIND_TIME, TIME = "volcano.sh/bind-phase", "volcano.sh/bind-time", "volcano.sh/vgpu-time"
VGPU_KEYS: Final = (IDS, LEFT, NODE, MORE, PHASE, BIND_TIME, TIME)
NEURON_KEYS: Final = (
    "AWS_NEURON_IDS",
    "NEURON_ALLOCATED",
    "NEURON_ALLOC_TIME",
    "NEURON_RESOURCE_TYPE",
    "aws.amazon.com/predicate-node",
    "hami.io/aws-neuron-devices-allocated",
)


class When(StrEnum):
    """When the annotations are written."""

    CREATION = "at creation, with nodeName"
    TEMPLATE = "at creation"
    WAITING = "before the Binding"
    BINDING = "in the Binding"
    PLACED = "after creation with nodeName"
    WINDOW = "between Binding and start"
    RESTART = "between Binding and start, while no agent runs"
    RUNNING = "after start"


class Write(StrEnum):
    """What request writes them."""

    POD = "pods"
    STATUS = "pods/status"


class Outcome(StrEnum):
    """What comes of it."""

    REFUSED = "the API server refuses the request"
    NEVER = "the container does not start"
    AS_BOUND = "the container has what the pod was bound with"


@dataclass(frozen=True, kw_only=True)
class Forgery:
    """One way. ``None`` removes an annotation. ``scheduler`` and ``requests`` are of a pod that is created so."""

    name: str
    when: When
    annotations: Mapping[str, str | None]
    outcome: Outcome
    write: Write = Write.POD
    scheduler: str = "volcano"
    requests: bool = True
    more: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.name}, {self.when} ({self.write})".replace(" ", "-")

    def written(self, **names: str) -> dict[str, str | None]:
        """The annotations with the names of a node and its cards."""
        return {key: None if text is None else text.format(**names) for key, text in self.annotations.items()}


def both(ids: str) -> dict[str, str | None]:
    """The two lists of an allocation."""
    return {IDS: ids, LEFT: ids}


FORGED: Final[Mapping[str, Mapping[str, str | None]]] = {
    "a whole card": both("{own},NVIDIA,40960,100:"),
    "1 MiB more": both("{own},NVIDIA,1001,10:"),
    "all memory": both("{own},NVIDIA,40960,10:"),
    "1 % of cores more": both("{own},NVIDIA,1000,11:"),
    "all cores": both("{own},NVIDIA,1000,100:"),
    "no limit of cores": both("{own},NVIDIA,1000,0:"),
    "no limit of memory": both("{own},NVIDIA,0,10:"),
    "a second card": both("{own},NVIDIA,1000,10:{other},NVIDIA,1000,10:"),
    "a card twice": both("{own},NVIDIA,1000,10:{own},NVIDIA,1000,10:"),
    "another card": both("{other},NVIDIA,1000,10:"),
    "another card, whole": both("{other},NVIDIA,40960,100:"),
    "an unhealthy card": both("{sick},NVIDIA,1000,10:"),
    "a card of another node": both("GPU-elsewhere,NVIDIA,1000,10:"),
    "a MIG slot": both("{own}[group1-0],NVIDIA,1000,10:"),
    "a second container": both("{own},NVIDIA,1000,10:;{other},NVIDIA,1000,10:"),
    "a negative amount": both("{own},NVIDIA,-1,10:"),
    "an amount beyond 64 bits": both("{own},NVIDIA,99999999999999999999,10:"),
    "no list": both("rubbish"),
    "an empty list": both(""),
    "the keys removed": {IDS: None, LEFT: None, NODE: None},
    "another node": {NODE: "node-2"},
    "the first list alone": {IDS: "{own},NVIDIA,40960,100:"},
    "the second list alone": {LEFT: "{own},NVIDIA,40960,100:"},
    "a list by name for an application": {MORE: "main={own},NVIDIA,40960,100:"},
    "a list by name for an init container": {MORE: "wait={own},NVIDIA,40960,100:"},
}
"""What is written, by what it is."""

RAISED: Final = ("a whole card", "1 MiB more", "all cores", "no limit of cores", "a second card", "another card, whole")


def _of(when: When, outcome: Outcome, *names: str, **more: Any) -> Iterator[Forgery]:
    for name in names or FORGED:
        yield Forgery(name=name, when=when, annotations=FORGED[name], outcome=outcome, **more)


def _created() -> Iterator[Forgery]:
    """Each key alone with ``nodeName``, and whole allocations of pods that no scheduler of ours sees."""
    for key in VGPU_KEYS:
        yield Forgery(
            name=f"{key} alone", when=When.CREATION, annotations={key: "1"}, outcome=Outcome.REFUSED, scheduler="none"
        )
    for scheduler in ("volcano", "default-scheduler", ""):
        for requests in (True, False):
            yield Forgery(
                name=f"a whole card by scheduler {scheduler or '(none)'}{'' if requests else ' without a request'}",
                when=When.CREATION,
                annotations={**FORGED["a whole card"], NODE: "{node}"},
                outcome=Outcome.REFUSED,
                scheduler=scheduler,
                requests=requests,
            )


SIDECAR: Final = {"restartPolicy": "Always"}
WAYS: Final[tuple[Forgery, ...]] = (
    *_created(),
    *_of(When.TEMPLATE, Outcome.AS_BOUND, *RAISED),
    *_of(When.WAITING, Outcome.AS_BOUND, *RAISED, "no list"),
    *_of(When.WAITING, Outcome.AS_BOUND, "a whole card", write=Write.STATUS),
    *_of(When.BINDING, Outcome.AS_BOUND, *RAISED, "the first list alone", "the second list alone"),
    *_of(When.PLACED, Outcome.NEVER, "a whole card", "1 MiB more", "the first list alone", "another card"),
    *_of(When.WINDOW, Outcome.NEVER),
    *_of(When.WINDOW, Outcome.NEVER, *RAISED, "another card", write=Write.STATUS),
    *_of(When.RESTART, Outcome.NEVER, *RAISED, "a card twice", "another node", "a MIG slot", "an unhealthy card"),
    *_of(When.RUNNING, Outcome.AS_BOUND, *RAISED, "another card", "no list", "the keys removed"),
)
"""All of them."""
