"""What pods are charged for: parts of devices, owners, and how many of them are named."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from hami_plugins.allocations.cache import AllocationCache
from hami_plugins.allocations.held_amounts import HeldAmounts, HeldTotal, Payer, named_payers, part_of, totals
from hami_plugins.engine.decide import Decider
from hami_plugins.engine.usage import HeldDevice
from hami_plugins.model.charges import HeldAmount
from hami_plugins.model.devices import Device
from hami_plugins.model.units import MiB
from hami_plugins.wire import objects
from tests.builders import a_device
from tests.unit.allocations.objects import N1, REGISTRY, Raw, a_node, a_pod, asking, bound

CARD = "GPU-n1-0"


def holder(*, memory: int = 10_240, cores: int = 0) -> Raw:
    """A bound pod with a slice of the card."""
    raw = bound(a_pod(memory=memory), "n1", f"{CARD},NVIDIA,{memory},{cores}:;")
    raw["spec"]["containers"][0]["resources"]["limits"]["volcano.sh/vgpu-cores"] = str(cores)
    return raw


def owned(raw: Raw, **metadata: Any) -> Raw:
    return {**raw, "metadata": {**raw["metadata"], **metadata}}


def amounts(*pods: Raw, label: str = "") -> tuple[HeldAmount, ...]:
    cache = AllocationCache(Decider(REGISTRY))
    cache.see_node(objects.node_object(a_node()))
    for raw in pods:
        cache.see_pod(objects.pod(raw), 0)
    return HeldAmounts(label).of(cache.sheet())


def test_a_slice_counts_with_the_larger_share_of_memory_and_cores() -> None:
    (memory,) = amounts(holder(memory=10_240, cores=20))
    (cores,) = amounts(holder(memory=4_096, cores=50))
    assert (memory.devices, memory.memory) == (Fraction(1, 4), 10_240)
    assert (cores.devices, cores.memory) == (Fraction(1, 2), 4_096)


@pytest.mark.parametrize(
    ("held", "device", "part"),
    [
        (HeldDevice(1, 20, 0), a_device(memory=10, cores=0), 1),
        (HeldDevice(1, 0, 1), a_device(memory=0, cores=4), Fraction(1, 4)),
        (HeldDevice(1, 0, 0), a_device(memory=0, cores=0), 1),
        (HeldDevice(1, 5, 5), None, 1),
    ],
)
def test_a_part_is_a_whole_device_at_most_and_an_unknown_device_is_whole(
    held: HeldDevice, device: Device | None, part: Fraction
) -> None:
    assert part_of(held, device) == part


def test_two_slices_of_two_cards_add_up() -> None:
    (found,) = amounts(bound(a_pod(count=2, memory=20_480), "n1", f"{CARD},NVIDIA,20480,0:GPU-x,NVIDIA,100,0:;"))
    assert (found.devices, found.memory) == (Fraction(3, 2), 20_580)


def test_only_bound_pods_are_charged() -> None:
    cache = AllocationCache(Decider(REGISTRY))
    cache.see_node(objects.node_object(a_node()))
    cache.reserve(N1, asking(a_pod()), 0)
    assert HeldAmounts().of(cache.sheet()) == ()


def test_a_pod_that_has_not_changed_is_worked_out_once_and_a_changed_node_again() -> None:
    cache, held = AllocationCache(Decider(REGISTRY)), HeldAmounts()
    cache.see_node(objects.node_object(a_node()))
    cache.see_pod(objects.pod(holder()), 0)
    (first,) = held.of(cache.sheet())
    (again,) = held.of(cache.sheet())
    assert again is first
    cache.see_node(objects.node_object(a_node("n1", f"{CARD},10,20480,NVIDIA-A100,true,hami-core:")))
    (changed,) = held.of(cache.sheet())
    assert (first.devices, changed.devices) == (Fraction(1, 4), Fraction(1, 2))
    cache.forget_pod(changed.uid, 0)
    assert held.of(cache.sheet()) == ()


def test_the_owner_is_the_label_where_there_is_one_else_the_controller() -> None:
    references = [
        {"kind": "Config", "name": "c"},
        {"kind": "Job", "name": "train", "controller": True},
    ]
    raw = owned(holder(), ownerReferences=references, labels={"payer": "ada"})
    assert [amounts(raw, label=label)[0].key.owner for label in ("", "payer", "other")] == [
        "Job/train",
        "ada",
        "Job/train",
    ]
    (bare,) = amounts(holder())
    assert (bare.key.owner, bare.key.namespace) == ("", "team")


@pytest.mark.parametrize("reference", [{"kind": "Job", "controller": True}, {"name": "x", "controller": True}, 7])
def test_a_controller_that_cannot_be_read_is_none(reference: Any) -> None:
    raw = owned(holder(), ownerReferences=[reference])
    assert amounts(raw)[0].key.owner == ""


def test_owners_beyond_the_bound_are_counted_together_and_named_ones_stay() -> None:
    (some,) = amounts(holder())
    held = [replace(some, key=some.key._replace(owner=owner)) for owner in "abcd"]
    first = named_payers((), held[1:], 2)
    assert first == {Payer("team", "", "b"), Payer("team", "", "c")}
    assert named_payers(first, held, 2) == first
    later = named_payers(first, [held[0], held[2]], 2)
    assert later == {Payer("team", "", "c"), Payer("team", "", "a")}
    found = {key.owner: total for key, total in totals(held, first).items()}
    quarter = HeldTotal(Fraction(1, 4), MiB(10_240))
    assert found == {"b": quarter, "c": quarter, "(other)": HeldTotal(Fraction(1, 2), MiB(20_480))}
    assert named_payers(first, held, 0) == frozenset()
