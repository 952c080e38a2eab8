"""The containers that an allocation's annotations speak of, for a bound pod of which nothing else can be read."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from hami_plugins.errors import WireError
from hami_plugins.model.dialect import Dialect
from hami_plugins.model.pods import Container
from hami_plugins.model.requests import ContainerKind
from hami_plugins.model.vendor import VendorSpec
from hami_plugins.wire import pod_devices, volcano


def containers(spec: VendorSpec, annotations: Mapping[str, str]) -> tuple[Container, ...]:
    """One per list of a vendor's devices; an invalid list names none, and its reader reports that."""
    if spec.allocation.containers_of is not None:
        return spec.allocation.containers_of(spec, annotations)
    key, found = spec.keys.allocated, list[Container]()
    decode = volcano.decode_assignment if spec.dialect is Dialect.VOLCANO else pod_devices.decode
    with suppress(WireError):
        found += [Container(name=f"{at}") for at in range(len(decode(key, annotations.get(key, ""))))]
    with suppress(WireError):
        named = volcano.decode_named(spec.keys.more, annotations.get(spec.keys.more, ""))
        found += [Container(name=name, kind=ContainerKind.SIDECAR) for name in named]
    return tuple(found)
