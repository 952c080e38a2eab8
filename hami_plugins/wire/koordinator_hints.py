"""Koordinator's hint about the devices that a pod wants, by type of device.

::

    scheduling.koordinator.sh/device-allocate-hint:
      {"gpu":{"selector":{"matchExpressions":[{"key":"gpu-uuid","operator":"In","values":["GPU-8c25a887"]}]},
      "requiredTopologyScope":"NUMANode"}}

Source: ``koordinator.md`` 2.4.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from hami_plugins.errors import WireError
from hami_plugins.model.pods import Requirement
from hami_plugins.wire import documents, fields
from hami_plugins.wire.fields import Json

KEY: Final = "scheduling.koordinator.sh/device-allocate-hint"

APPLY_FOR_ALL: Final = "ApplyForAll"
REQUESTS_AS_COUNT: Final = "RequestsAsCount"
WITHIN_ONE_NUMA_NODE: Final = frozenset({"Device", "PCIe", "NUMANode"})
"""Scopes that are no larger than a NUMA node."""

_SCOPES: Final = frozenset({"", "Node", *WITHIN_ONE_NUMA_NODE})
_STRATEGIES: Final = frozenset({"", APPLY_FOR_ALL, REQUESTS_AS_COUNT})
_EXCLUSIVE: Final = frozenset({"", "DeviceLevel", "PCIeLevel"})
_OPERATORS: Final = frozenset({"In", "NotIn", "Exists", "DoesNotExist"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Hint:
    """What is wanted of the devices of one type.

    ``selector`` is about labels of devices, ``functions`` about those of virtual functions; ``strategy`` says what an
    amount means, ``scope`` how near to each other devices must be, ``exclusive`` where nobody else may be.
    """

    selector: tuple[Requirement, ...] = ()
    functions: tuple[Requirement, ...] = ()
    strategy: str = ""
    scope: str = ""
    exclusive: str = ""


def decode(text: str, *, key: str = KEY) -> Mapping[str, Hint]:
    """The hint by type of device; raises ``WireError`` naming the member that cannot be read."""
    body = fields.whole(documents.load(key, text), key)
    return {kind: _hint(fields.member(body, kind, key), f"{key}.{kind}") for kind in body}


def _hint(body: Json, place: str) -> Hint:
    return Hint(
        selector=tuple(_selector(fields.member(body, "selector", place), f"{place}.selector")),
        functions=tuple(_selector(fields.member(body, "vfSelector", place), f"{place}.vfSelector")),
        strategy=_word(body, "allocateStrategy", place, _STRATEGIES),
        scope=_word(body, "requiredTopologyScope", place, _SCOPES),
        exclusive=_word(body, "exclusivePolicy", place, _EXCLUSIVE),
    )


def _word(body: Json, name: str, place: str, known: frozenset[str]) -> str:
    found = fields.text(body, name, place)
    if found not in known:
        raise WireError(f"{place}.{name}", found, f"expected one of {', '.join(sorted(known - {''}))}")
    return found


def _selector(body: Json, place: str) -> Iterator[Requirement]:
    for key, value in fields.text_map(body, "matchLabels", place).items():
        yield Requirement(key, "In", (value,))
    for at, raw in enumerate(fields.items(body, "matchExpressions", place)):
        inside = f"{place}.matchExpressions[{at}]"
        each = fields.whole(raw, inside)
        operator = fields.text(each, "operator", inside)
        if operator not in _OPERATORS:
            raise fields.wrong(f"{inside}.operator", operator, f"one of {', '.join(sorted(_OPERATORS))}")
        yield Requirement(fields.text(each, "key", inside), operator, tuple(fields.texts(each, "values", inside)))
