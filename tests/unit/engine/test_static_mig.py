"""MIG instances of NVIDIA's device plugin: names of profiles, strategies, and labels that contradict the capacity."""

from __future__ import annotations

import pytest

from hami_plugins.engine import static_mig
from hami_plugins.engine.registry import Registry
from hami_plugins.inputs.list_reader import snapshot_of
from hami_plugins.model.nodes import NodeFacts
from hami_plugins.model.quantity import NANO
from hami_plugins.vendors import builtin
from hami_plugins.wire import quantity
from tests.unit.vet import clusters


def facts(labels: dict[str, str], offered: dict[str, str] | None = None) -> NodeFacts:
    amounts = {name: quantity.parse(text, key=name) for name, text in (offered or {}).items()}
    return NodeFacts(labels=labels, allocatable=amounts)


@pytest.mark.parametrize(
    ("profile", "formed", "known"),
    [
        ("1g.10gb", True, True),
        ("1g.10gb.me", True, True),
        ("1g.10gb+me", True, True),
        ("1c.3g.40gb", True, True),
        ("1g.24gb.me.all", True, True),
        ("1g.24gb+gfx", True, True),
        ("7g.79gb", True, True),
        ("1g.13gb", True, False),
        ("9g.10gb", False, False),
        ("1g.10GB", False, False),
        ("1g.10gb.mi", False, False),
        ("", False, False),
    ],
)
def test_profiles_are_known_by_their_form_and_by_cards(profile: str, *, formed: bool, known: bool) -> None:
    assert (static_mig.is_profile(profile), static_mig.has_card(profile)) == (formed, known)


def test_the_profile_of_a_resource_is_what_follows_the_prefix() -> None:
    assert static_mig.profile_of("nvidia.com/mig-1g.10gb.me") == "1g.10gb.me"
    assert not static_mig.profile_of("nvidia.com/gpu")


def test_the_list_names_cards_and_their_profiles() -> None:
    assert "A30: 1g.6gb 2g.12gb 4g.24gb" in static_mig.listed()


def test_a_node_offers_the_instances_of_which_there_are_some() -> None:
    some = facts({}, {"nvidia.com/mig-1g.5gb": "7", "nvidia.com/mig-2g.10gb": "0", "nvidia.com/gpu": "1"})
    assert static_mig.offered(some) == {"nvidia.com/mig-1g.5gb": 7}


@pytest.mark.parametrize(
    ("labels", "offered", "single"),
    [
        ({"nvidia.com/mig.strategy": "single"}, "7", True),
        ({"nvidia.com/mig.strategy": "single"}, "0", False),
        ({"nvidia.com/mig.strategy": "mixed"}, "7", False),
        ({}, "7", False),
    ],
)
def test_cards_are_instances_where_the_strategy_is_single(
    labels: dict[str, str], offered: str, *, single: bool
) -> None:
    assert static_mig.is_single(facts(labels, {"nvidia.com/gpu": offered})) is single
    assert not static_mig.is_single(facts(labels))


def test_labels_tell_the_profile_of_a_single_strategy() -> None:
    cut = facts({"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb"})
    assert static_mig.single_profile(cut) == "1g.10gb"
    assert not static_mig.single_profile(facts({"nvidia.com/gpu.product": "NVIDIA-A10"}))
    assert not static_mig.single_profile(facts({}))


def a_single_node(name: str = "s") -> dict[str, object]:
    node = clusters.node(name, {}, {"nvidia.com/gpu": "7"})
    node["metadata"]["labels"]["nvidia.com/mig.strategy"] = "single"
    return node


def test_nvidias_cards_are_kube_schedulers_where_instances_are_offered_and_hami_has_no_node() -> None:
    registry = builtin()
    assert static_mig.scheduled(snapshot_of([a_single_node()], registry), registry).owner_of("nvidia.com/gpu") is None
    assert "Volcano-vGPU" in static_mig.scheduled(snapshot_of([a_single_node()], registry), registry)


@pytest.mark.parametrize(
    "nodes",
    [
        [],
        [clusters.node("whole", {}, {"nvidia.com/gpu": "8"})],
        [a_single_node(), clusters.nvidia("hamis", {})],
    ],
    ids=["no node", "whole cards", "a node of HAMi"],
)
def test_they_are_hamis_everywhere_else(nodes: list[dict[str, object]]) -> None:
    registry = builtin()
    assert static_mig.scheduled(snapshot_of(nodes, registry), registry) is registry


def test_a_registry_without_nvidia_stays_as_it_is() -> None:
    registry = Registry(())
    assert static_mig.scheduled(snapshot_of([a_single_node()], registry), registry) is registry


def test_instances_among_requests_depend_on_whose_cards_they_are() -> None:
    requests = (("cpu", NANO), ("nvidia.com/gpu", 2 * NANO), ("nvidia.com/mig-1g.5gb", 3 * NANO))
    assert static_mig.asked(requests, builtin()) == {"nvidia.com/mig-1g.5gb": 3}
    assert static_mig.asked(requests, Registry(())) == {"nvidia.com/gpu": 2, "nvidia.com/mig-1g.5gb": 3}
    assert static_mig.asked((("nvidia.com/mig-1g.5gb", 0),), builtin()) == {}


SINGLE = {"nvidia.com/mig.strategy": "single"}
MIXED = {"nvidia.com/mig.strategy": "mixed"}


@pytest.mark.parametrize(
    ("labels", "capacity", "expected"),
    [
        (SINGLE, {"nvidia.com/gpu": 7}, []),
        (SINGLE | {"nvidia.com/gpu.count": "7"}, {"nvidia.com/gpu": 7}, []),
        (SINGLE | {"nvidia.com/gpu.count": "7", "nvidia.com/gpu.replicas": "2"}, {"nvidia.com/gpu": 14}, []),
        (SINGLE | {"nvidia.com/gpu.count": "7", "nvidia.com/gpu.replicas": "0"}, {"nvidia.com/gpu": 7}, []),
        (SINGLE, {"nvidia.com/mig-1g.5gb": 0}, []),
        (MIXED | {"nvidia.com/gpu.count": "8"}, {"nvidia.com/gpu": 0, "nvidia.com/mig-1g.5gb": 7}, []),
        (MIXED | {"nvidia.com/mig-1g.5gb.count": "7"}, {"nvidia.com/mig-1g.5gb": 7}, []),
        ({"nvidia.com/gpu.count": "8"}, {"nvidia.com/gpu": 1}, []),
        (
            SINGLE,
            {"nvidia.com/mig-1g.5gb": 7},
            ["label nvidia.com/mig.strategy=single, and the node offers 7 nvidia.com/mig-1g.5gb"],
        ),
        (
            MIXED | {"nvidia.com/gpu.product": "A100-MIG-1g.5gb"},
            {},
            [
                "label nvidia.com/mig.strategy=mixed, and nvidia.com/gpu.product=A100-MIG-1g.5gb is that of the "
                "strategy single"
            ],
        ),
        (
            SINGLE | {"nvidia.com/gpu.count": "7", "nvidia.com/gpu.replicas": "2"},
            {"nvidia.com/gpu": 7},
            ["label nvidia.com/gpu.count=7 and nvidia.com/gpu.replicas=2, and the node offers 7 nvidia.com/gpu"],
        ),
        (
            MIXED | {"nvidia.com/mig-1g.5gb.count": "7"},
            {},
            ["label nvidia.com/mig-1g.5gb.count=7, and the node offers 0 nvidia.com/mig-1g.5gb"],
        ),
        (
            MIXED | {"nvidia.com/mig-1g.5gb.count": "many"},
            {"nvidia.com/mig-1g.5gb": 7},
            ["label nvidia.com/mig-1g.5gb.count=many (replicas 1) is not a number"],
        ),
        (
            SINGLE | {"nvidia.com/gpu.count": "7", "nvidia.com/gpu.replicas": "-1"},
            {"nvidia.com/gpu": 7},
            ["label nvidia.com/gpu.count=7 (replicas -1) is not a number"],
        ),
    ],
)
def test_labels_that_contradict_the_capacity_are_told(
    labels: dict[str, str], capacity: dict[str, int], expected: list[str]
) -> None:
    assert list(static_mig.contradictions(labels, capacity)) == expected
