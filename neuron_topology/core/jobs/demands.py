"""What the pods of a template ask for, as the vendor reads it, and whether machines of a type can ever give it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from hami_plugins.errors import InvalidRequestError, WireError
from hami_plugins.model.pods import Container, Pod
from hami_plugins.model.quantity import NANO
from hami_plugins.wire import fields, quantity
from hami_plugins.wire.fields import Json
from hami_plugins.wire.pods import CONTAINER_LISTS, booked_for, kind_of
from neuron_topology.core import efa, names, vendor
from neuron_topology.core.hardware.instances import InstanceType
from neuron_topology.core.nodes import FAMILY_LABEL
from neuron_topology.core.sets.families import Family
from neuron_topology.core.sets.tables import Topology

EXTENDED: Final = (names.DEVICES, names.CORES, names.EFA)
"""The resources that matter here, in whole numbers."""


class Asking(NamedTuple):
    """One container with what it asks for of ``EXTENDED``; ``place`` is where its limits are written."""

    place: str
    container: Container

    def amount(self, name: str) -> int:
        """How much of a resource."""
        found = self.container.limits.get(name)
        return found.nano // NANO if found is not None else 0


class DemandRemark(NamedTuple):
    """What is as the job says and will not do on usual nodes, and where."""

    path: str
    what: str

    def __str__(self) -> str:
        return f"{self.path}: {self.what}"


def read(spec: Json, place: str) -> tuple[Asking, ...]:
    """The containers of a pod. Raises ``WireError`` for what the vendor refuses wherever the pod would run."""
    found = tuple(
        _asking(fields.whole(raw, where), where, group)
        for group in CONTAINER_LISTS
        for at, raw in enumerate(fields.items(spec, group, place))
        for where in (f"{fields.path(place, group)}[{at}]",)
    )
    pod = Pod(namespace="", name="", containers=tuple(each.container for each in found))
    for each in found:
        try:
            vendor.request(vendor.SPEC, each.container, pod)
        except InvalidRequestError as error:
            raise WireError(f"{each.place}[{error.resource}]", error.value, f"{error.why}; {error.remedy}") from None
    return found


def asks(askings: Sequence[Asking]) -> bool:
    """Whether any of them asks for Neuron at all."""
    return any(each.amount(name) for each in askings for name in (names.DEVICES, names.CORES))


def possible(
    askings: Sequence[Asking], kind: InstanceType, selector: dict[str, str], *, pods: int
) -> Iterator[DemandRemark]:
    """Remarks on what only some pools of such machines allocate, and on the network of a job of so many pods.

    Raises ``WireError`` for what none of them can allocate.
    """
    cores = kind.devices * max(map(kind.logical_cores, (0, *kind.lnc_choices)))
    peak = booked_for(each.container for each in askings)
    for name, held in zip(EXTENDED, (kind.devices, cores, kind.efa_interfaces), strict=True):
        asked = peak.get(name, 0) // NANO
        if asked > held and (name != names.EFA or kind.host_known):
            most = max(askings, key=lambda each: each.amount(name))
            why = f"a pod asks for {asked}, and {kind.name} has {held}; ask for less, or select another instance type"
            raise WireError(f"{most.place}[{name}]", str(most.amount(name)), why)
    for each in askings:
        yield from _together(each, kind, selector.get(FAMILY_LABEL))
    devices, interfaces = (peak.get(name, 0) // NANO for name in (names.DEVICES, names.EFA))
    place = max(askings, key=lambda each: each.amount(names.DEVICES)).place
    for what in efa.unsuited(kind, devices=devices, interfaces=interfaces, pods=pods):
        yield DemandRemark(f"{place}[{names.EFA}]", what)


def _together(asking: Asking, kind: InstanceType, pool: str | None) -> Iterator[DemandRemark]:
    """Whether so many devices are ever allocated together, by the family of the selected pool, else the default one."""
    count = asking.amount(names.DEVICES)
    tables = Topology(kind.fabric, Family.LINKED if pool == Family.LINKED else Family.AWS).tables
    if not count or count in tables.counts:
        return
    nearest = " or ".join(map(str, tables.nearest(count)))
    what = f"{count} devices of {kind.name} are never allocated together; ask for {nearest}"
    where = f"{asking.place}[{names.DEVICES}]"
    if pool is not None:
        raise WireError(where, str(count), f"{what}, or select {FAMILY_LABEL}={Family.LINKED}")
    yield DemandRemark(where, f"{what}, or select a node pool with {FAMILY_LABEL}={Family.LINKED}")


def _asking(raw: Json, place: str, listed: str) -> Asking:
    inside = f"{place}.resources"
    limits = fields.member(fields.member(raw, "resources", place), "limits", inside)
    amounts = {
        name: quantity.parse(limits[name], key=f"{inside}.limits[{name}]") for name in EXTENDED if name in limits
    }
    kind = kind_of(raw.get("restartPolicy"), listed)
    name = fields.text(raw, "name", place)
    return Asking(f"{inside}.limits", Container(name=name, kind=kind, limits=amounts, requests=amounts))
