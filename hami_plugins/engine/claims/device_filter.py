"""Whether the selectors of a class and of a request choose a device; equal devices are asked about once."""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping
from functools import lru_cache
from typing import Final

from hami_plugins.engine.claims.pools import PoolMember, reaches
from hami_plugins.engine.claims.search import SearchGivenUpError, SearchStoppedError
from hami_plugins.engine.claims.selectors import NotEvaluatedError, SelectorError, compiled
from hami_plugins.model.claims import DeviceChoice, DeviceClass, SliceDevice
from hami_plugins.model.nodes import NodeEntry

_ONE: Final = re.compile(
    r"""device\s*\.\s*(?:attributes|capacity)\s*\[\s*(["'])[^"'\\]*\1\s*\]\s*(?:\.\s*(\w+)|\[\s*(["'])([^"'\\]*)\3\s*\])"""
)
_ANY: Final = re.compile(r"device\s*\.\s*(?:attributes|capacity)\b")

_Answer = bool | SelectorError | NotEvaluatedError


class Matcher:
    """Remembers the answers for the devices of one cluster."""

    def __init__(self, classes: Mapping[str, DeviceClass]) -> None:
        self._classes = classes
        self._known: dict[tuple[str, Hashable], _Answer] = {}

    def accepts(self, member: PoolMember, choice: DeviceChoice, entry: NodeEntry) -> bool:
        """Whether a device can be had for a request, free or not. Raises what ends a search."""
        of_class = self._classes[choice.class_name]
        for at, expression in enumerate(of_class.selectors):
            if not self._chosen(expression, member, f"class {of_class.name}: selector #{at}"):
                return False
        for at, expression in enumerate(choice.selectors):
            if not self._chosen(expression, member, f"selector #{at} of the request"):
                return False
        device = member.device
        if device.nodes is not None and not reaches(device.nodes, entry):
            return False
        if device.not_read:
            raise SearchGivenUpError(f"device {member.id}: {device.not_read} is not understood")
        if device.waits:
            raise SearchGivenUpError(f"device {member.id} has binding conditions, which are not decided")
        return True

    def _chosen(self, expression: str, member: PoolMember, place: str) -> bool:
        key = expression, _looked_at(expression, member.device, member.id.pool.driver)
        answer = self._known.get(key)
        if answer is None:
            answer = self._known[key] = _asked(expression, member)
        if isinstance(answer, SelectorError):
            raise SearchStoppedError(f"{place}: CEL error: {answer}")
        if isinstance(answer, NotEvaluatedError):
            raise SearchGivenUpError(f"{place} is not evaluated: {answer}")
        return answer


def _asked(expression: str, member: PoolMember) -> _Answer:
    try:
        return compiled(expression).accepts(member.device, member.id.pool.driver)
    except (SelectorError, NotEvaluatedError) as error:
        return error


def _looked_at(expression: str, device: SliceDevice, driver: str) -> Hashable:
    """All of a device that an expression can see: what it names where it names everything, else the device itself."""
    names = _named(expression)
    if names is None:
        return id(device)
    attributes, capacity = device.attributes, device.capacity
    return (
        driver,
        device.shared,
        tuple((name, value) for name, value in attributes.items() if name.rpartition("/")[2] in names),
        tuple((name, of.value) for name, of in capacity.items() if name.rpartition("/")[2] in names),
        tuple(type(value) for name, value in attributes.items() if name.rpartition("/")[2] in names),
    )


@lru_cache(maxsize=1024)
def _named(expression: str) -> frozenset[str] | None:
    """The attributes and capacities that an expression reads, without domains; ``None`` where it may read others."""
    found = [each[1] or each[3] for each in _ONE.findall(expression)]
    return frozenset(found) if len(found) == len(_ANY.findall(expression)) else None
