"""The containers that an allocation's annotations speak of, for a bound pod of which nothing else can be read."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from hami_plugins.errors import WireError
from hami_plugins.model.pods import Container
from hami_plugins.model.requests import ContainerKind
from hami_plugins.model.vendor import VendorSpec
from hami_plugins.wire import volcano


def containers(annotations: Mapping[str, str], spec: VendorSpec) -> tuple[Container, ...]:
    """One for each list of cards; a list that is wrong speaks of none, and whoever reads it again says so."""
    found: list[Container] = []
    with suppress(WireError):
        pieces = volcano.decode_assignment(spec.keys.allocated, annotations.get(spec.keys.allocated, ""))
        found += [Container(name=f"{at}") for at in range(len(pieces))]
    with suppress(WireError):
        named = volcano.decode_named(spec.keys.more, annotations.get(spec.keys.more, ""))
        found += [Container(name=name, kind=ContainerKind.SIDECAR) for name in named]
    return tuple(found)
