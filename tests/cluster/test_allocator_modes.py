"""Modes changed on a running cluster, and mode ``policy``, which has no process of ours."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from itertools import count
from typing import Final

import pytest
import yaml

from hami_plugins.allocations.manifests.stale_allocations import KEYS as VOLCANO_KEYS
from hami_plugins.vendors.volcano import NODE_KEY
from tests.cluster.agents import Numbers
from tests.cluster.allocator import Allocator, command
from tests.cluster.card_nodes import WHOLE, Pool
from tests.cluster.cases import MEMBERS, Case, seconds_to_bound, submit_waiting
from tests.cluster.kubernetes import ControlPlane
from tests.cluster.objects import binding, pod
from tests.cluster.peers import POLICIES_SERVED
from tests.cluster.slices import ALLOCATED_NODE, gpu, pods
from tests.cluster.volcano import Volcano
from tests.cluster.waiting import wait_until

HALF: Final = 20000
POLICIES: Final = {
    "MutatingAdmissionPolicy": "mutatingadmissionpolicies",
    "MutatingAdmissionPolicyBinding": "mutatingadmissionpolicybindings",
}


def test_modes_change_on_a_running_cluster_and_no_allocation_is_lost(
    volcano: Volcano, control_plane: ControlPlane, namespace: str
) -> None:
    """Eight halves fill four cards, two in each mode in turn; then there is room for what is left and no more."""
    with Pool(control_plane) as pool:
        pool.add(2, cards=2)
        case = Case(control_plane, pool, namespace)
        kept: dict[str, list[tuple[str, int, int]]] = {}
        for at, mode in enumerate(("extender", "webhook", "none", "extender")):
            with nullcontext() if mode == "none" else Allocator(volcano, mode):
                if mode == "none":
                    case.wait_counting()
                names = [f"{mode}-{at}-{number}" for number in range(2)]
                for name in names:
                    case.submit(name, gpu(memory=HALF))
                case.wait_bound(*names)
                assert not pool.faults()
                assert {name: case.allocated(name) for name in kept} == kept
                kept |= {name: case.allocated(name) for name in names}
                if at == 3:
                    case.submit("one-more", gpu(memory=WHOLE - 2 * HALF + 1))
                    case.wait_told("one-more", f"largest free {WHOLE - 2 * HALF}")
                    case.submit("exact", gpu(memory=WHOLE - 2 * HALF))
                    case.wait_bound("exact")
                    assert not case.node_of("one-more")
                    assert not pool.faults()


@pytest.fixture
def policy(volcano: Volcano) -> Iterator[None]:
    """What ``allocator stale-policy`` prints, in the API server, which serves such policies."""
    api = volcano.plane.api
    version = POLICIES_SERVED[volcano.plane.release]
    documents = list(yaml.safe_load_all(command("stale-policy", "--version", version)))
    collections = [f"/apis/admissionregistration.k8s.io/{version}/{POLICIES[each['kind']]}" for each in documents]
    for collection, each in zip(collections, documents, strict=True):
        volcano.plane.apply(collection, each)
    volcano.restart_scheduler()
    yield
    for collection, each in reversed(list(zip(collections, documents, strict=True))):
        api.delete(f"{collection}/{each['metadata']['name']}")


@pytest.mark.usefixtures("policy")
def test_the_policy_takes_what_an_earlier_try_wrote_off_a_binding(control_plane: ControlPlane, namespace: str) -> None:
    """The API server takes a moment to put it in force."""
    fresh, stale = dict.fromkeys(VOLCANO_KEYS, "fresh"), dict.fromkeys(VOLCANO_KEYS, "stale")
    names = map("p{}".format, count())

    def carried() -> dict[str, str]:
        name = next(names)
        control_plane.api.create(pods(namespace), pod(name, annotations=fresh, schedulerName="nobody"))
        body = binding(name, pool_node, annotations={**stale, "test/other": "kept"})
        control_plane.api.create(f"{pods(namespace)}/{name}/binding", body)
        found: dict[str, str] = control_plane.api.get(f"{pods(namespace)}/{name}")["metadata"]["annotations"]
        return found

    with Pool(control_plane) as pool:
        (pool_node,) = pool.add()
        found = wait_until(lambda: (seen := carried())[NODE_KEY] == "fresh" and seen, "the policy is in force")
        assert found == {**fresh, "test/other": "kept"}
    assert ALLOCATED_NODE in VOLCANO_KEYS


@pytest.mark.usefixtures("policy")
def test_under_the_policy_a_gang_that_had_to_wait_has_its_own_nodes_cards(
    volcano: Volcano, control_plane: ControlPlane, namespace: str, numbers: Numbers
) -> None:
    with Pool(control_plane) as pool:
        pool.add(MEMBERS)
        case = Case(control_plane, pool, namespace)
        submit_waiting(case, "gang")
        seconds = seconds_to_bound([(case, "gang")], heal=True)
        assert volcano.scheduler.running
        assert not pool.faults()
    numbers.add("gang that had to wait, room to bound, policy", f"{seconds:.1f} s", "")
