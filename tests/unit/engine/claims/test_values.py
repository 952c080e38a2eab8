"""Rounding, rules by release, what claims hold, and what nodes are asked again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hami_plugins.engine.apply import removed
from hami_plugins.engine.claims import capacity
from hami_plugins.engine.claims.rules import KUBERNETES_1_34, KUBERNETES_1_36, rules_of
from hami_plugins.engine.claims.usage import given, resources_of, together, without_users
from hami_plugins.engine.decide import Decider, PodDemand
from hami_plugins.engine.intake import Rules, take_in
from hami_plugins.engine.registry import Registry
from hami_plugins.inputs.list_reader import snapshot_of
from hami_plugins.model.claims import CapacityPolicy, DeviceCapacity, PoolId, PoolUsage
from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.model.decisions import Placed
from hami_plugins.model.verdicts import Fit
from hami_plugins.vendors import BUILTIN
from hami_plugins.wire import objects
from tests.claim_objects import (
    DRIVER,
    a_card,
    a_claim,
    a_class,
    a_device,
    a_node,
    a_pod,
    a_request,
    a_slice,
    a_template,
    places,
    planned,
    why,
)
from tests.claim_objects import (
    given as status,
)

ONE = 10**9
REGISTRY = Registry(BUILTIN)
N1 = PoolId(DRIVER, "n1")


@pytest.mark.parametrize(
    ("policy", "asked", "taken"),
    [
        (None, None, 100),
        (CapacityPolicy(), None, 100),
        (CapacityPolicy(default=7 * ONE), None, 7),
        (None, 5, 5),
        (CapacityPolicy(default=ONE), 5, 5),
        (CapacityPolicy(least=4 * ONE), 3, 4),
        (CapacityPolicy(least=4 * ONE), 5, 5),
        (CapacityPolicy(least=4 * ONE, step=3 * ONE), 5, 7),
        (CapacityPolicy(least=4 * ONE, step=3 * ONE), 7, 7),
        (CapacityPolicy(least=4 * ONE, step=0), 5, 5),
        (CapacityPolicy(values=(4 * ONE, 8 * ONE)), 5, 8),
        (CapacityPolicy(values=(4 * ONE, 8 * ONE)), 9, 9),
    ],
)
def test_what_a_request_takes(policy: CapacityPolicy | None, asked: int | None, taken: int) -> None:
    """Of 100, without a request or for one of that amount."""
    has = DeviceCapacity(100 * ONE, policy)
    assert capacity.taken(has, None if asked is None else asked * ONE) == taken * ONE


@pytest.mark.parametrize(
    ("policy", "amount", "allowed"),
    [
        (None, 1, True),
        (CapacityPolicy(), 1, True),
        (CapacityPolicy(default=ONE, most=ONE // 2), 1, True),
        (CapacityPolicy(least=ONE, most=3 * ONE), 3, True),
        (CapacityPolicy(least=ONE, most=3 * ONE), 4, False),
        (CapacityPolicy(least=ONE), 400, True),
        (CapacityPolicy(least=ONE, step=2 * ONE), 5, True),
        (CapacityPolicy(least=ONE, step=2 * ONE), 4, False),
        (CapacityPolicy(step=2 * ONE), 3, False),
        (CapacityPolicy(values=(ONE, 2 * ONE)), 2, True),
        (CapacityPolicy(values=(ONE, 2 * ONE)), 3, False),
    ],
)
def test_what_a_policy_allows(policy: CapacityPolicy | None, amount: int, *, allowed: bool) -> None:
    """A default is always allowed."""
    assert capacity.allowed(amount * ONE, policy) is allowed


@pytest.mark.parametrize(
    ("kubelets", "rules"),
    [
        ({"v1.34.4", "v1.33.1"}, KUBERNETES_1_34),
        ({"v1.34.4", "v1.35.0-eks-1"}, KUBERNETES_1_36),
        ({"v1.36.1"}, KUBERNETES_1_36),
        (set(), KUBERNETES_1_36),
        ({"", "strange", "v2.1.0", "v1.x"}, KUBERNETES_1_36),
    ],
)
def test_the_release_is_that_of_the_newest_kubelet(kubelets: set[str], rules: object) -> None:
    """No kubelet is newer than the scheduler."""
    assert rules_of(kubelets) is rules


@pytest.mark.parametrize(("kubelet", "second"), [("v1.34.4", "nodes"), ("v1.36.1", "n1")])
def test_a_snapshot_tells_the_release(kubelet: str, second: str) -> None:
    """A full first card hides the second one in 1.34 only."""
    cards = a_slice(a_card("gpu-0"), a_card("gpu-1"))
    raws = [a_node(kubelet=kubelet), a_class(), cards, a_template("t", a_request(memory="60Gi"))]
    pods = [a_pod("p", template="t"), a_pod("q", template="t")]
    assert places([*raws, *pods], None) == {"p": "n1", "q": second}


CLUSTER = (
    a_node(),
    a_class(),
    a_slice(a_device("gpu-0"), a_card("gpu-1"), a_card("gpu-2")),
    a_claim("kept", a_request(), **status("gpu-0", users=["a", "b"])),
    a_claim("part", a_request(), **status("gpu-1", shareID="s", consumedCapacity={"memory": "10Gi"}, users=["a"])),
    a_claim("more", a_request(), **status("gpu-1", shareID="t", consumedCapacity={"memory": "20Gi"})),
    a_claim("monitor", a_request(), **status("gpu-2", adminAccess=True)),
    a_claim("wanted", a_request()),
)


def cluster() -> ClusterSnapshot:
    """The snapshot of the objects above."""
    return snapshot_of(CLUSTER, REGISTRY)


def test_claims_hold_devices_and_amounts() -> None:
    """Admin access holds nothing."""
    memory = (("memory", 30 * 2**30 * ONE),)
    assert cluster().dynamic.taken == {N1: PoolUsage(frozenset({"gpu-0"}), (("gpu-1", memory),))}


def test_a_claim_stays_until_its_last_pod_goes() -> None:
    """One that was made for a pod is deleted with it."""
    dynamic = cluster().dynamic
    one_left = without_users(dynamic, {"default/a"}.__contains__)
    assert one_left.claims["default/kept"].users == ("b",)
    assert one_left.claims["default/part"].allocation is None
    none_left = without_users(dynamic, {"default/a", "default/b"}.__contains__)
    assert none_left.taken[N1].devices == frozenset()
    assert without_users(dynamic, lambda name: name == "default/c") is dynamic
    own = replace(dynamic.claims["default/part"], pod="a")
    made = resources_of(claims=[own])
    assert without_users(made, lambda _: True).claims == {}


def test_what_pods_get_is_what_a_rebuild_of_their_claims_holds() -> None:
    """After each of several pods with devices, shares and several claims."""
    template = a_template("t", a_request("r"), a_request("s", memory="10Gi"))
    pods = [a_pod(f"p{at}", template="t") for at in range(2)] + [a_pod("q", claim="part")]
    plan = planned(
        [
            *CLUSTER,
            a_slice(*(a_device(f"x{at}") for at in range(3)), a_card("y"), node="n1", pool="more"),
            template,
            *pods,
        ]
    )
    after = plan.after.dynamic
    rebuilt = resources_of(claims=after.claims.values())
    assert after.taken == rebuilt.taken
    assert after.claims["default/part"].users == ("a", "q")
    assert {name for name in after.claims if name.startswith("default/p")} == {
        "default/p0-c",
        "default/p1-c",
        "default/part",
    }
    assert given(after, objects.pod(a_pod("q")), ()).taken == after.taken


def test_a_pod_that_is_left_out_gives_its_claims_back() -> None:
    """``--without`` is a question about such a cluster."""
    holder = a_pod("a", claim="kept")
    holder["spec"]["nodeName"] = "n1"
    snapshot = snapshot_of([*CLUSTER, holder], REGISTRY)
    assert removed(snapshot, lambda each: each.name == "a").dynamic.claims["default/kept"].users == ("b",)
    assert removed(snapshot, lambda each: each.name == "nobody").dynamic is snapshot.dynamic


def test_objects_of_both_are_together() -> None:
    """Of one name those of the other count."""
    known = cluster().dynamic
    other = snapshot_of([a_slice(a_device("new")), a_class("own"), a_claim("kept", a_request())], REGISTRY).dynamic
    found = together(known, other)
    assert [each.devices[0].name for each in found.slices] == ["new"]
    assert sorted(found.classes) == ["gpu", "own"]
    assert found.claims["default/kept"].allocation is None
    assert found.taken[N1].devices == frozenset()


def test_the_newer_class_stands_for_a_resource() -> None:
    """Of two of one age, the later by name."""

    def made(name: str, day: int) -> dict[str, object]:
        found = a_class(name, extendedResourceName="x.io/gpu")
        found["metadata"]["creationTimestamp"] = f"2026-01-0{day}T00:00:00Z"
        return found

    for classes, one in (([made("b", 1), made("a", 2)], "a"), ([made("b", 1), made("a", 1)], "b")):
        assert snapshot_of(classes, REGISTRY).dynamic.stands_for == {"x.io/gpu": one}


def asked(pod: dict[str, object], decider: Decider, snapshot: ClusterSnapshot) -> str:
    """Where a pod goes."""
    intake = take_in(objects.pod(pod), REGISTRY, Rules())
    found = decider.decide(snapshot, intake.demand, intake.policy)
    return found.node if isinstance(found, Placed) else "nowhere"


def test_what_is_remembered_of_nodes_is_what_a_fresh_look_says() -> None:
    """Claims, nodes and labels change between two pods of one wish."""
    shared = a_slice(a_device("far"), node=None, pool="far", allNodes=True)
    slices = [a_slice(a_device()), a_slice(a_device(), node="n2"), shared]
    base = snapshot_of([a_node(), a_node("n2"), a_class(), *slices, a_template("t", a_request())], REGISTRY)
    near = [a_claim(f"x{at}", a_request(), **status("gpu-0", node=f"n{at + 1}")) for at in range(2)]
    far = a_claim("far", a_request(), **status("far", node="far"))
    more = snapshot_of([a_node("n0", labels={"rack": "a"})], REGISTRY).nodes
    decider, pod, found = Decider(REGISTRY), a_pod(template="t"), []
    for claims, nodes in (
        ([], ()),
        (near[:1], ()),
        (near, ()),
        ([*near, far], ()),
        ([near[1], far], ()),
        ([far], ()),
        ([far], more),
        (near, more),
    ):
        held = snapshot_of(claims, REGISTRY).dynamic
        dynamic = replace(base.dynamic, claims=held.claims, taken=held.taken)
        snapshot = base.with_more_nodes(nodes).with_dynamic(dynamic)
        found.append(asked(pod, decider, snapshot))
        assert found[-1] == asked(pod, Decider(REGISTRY), snapshot)
    assert found == ["n1", "n1", "n1", "nowhere", "n1", "n1", "n1", "n0"]


def test_wishes_of_one_demand_are_remembered_within_bounds() -> None:
    """More of them than are kept, and the first one again."""
    templates = [a_template(f"t{at}", a_request("r", f"{at} == {at}")) for at in range(20)]
    snapshot = snapshot_of([a_node(), a_class(), a_slice(a_device()), *templates], REGISTRY)
    decider = Decider(REGISTRY)
    for at in (*range(20), 0):
        assert asked(a_pod(template=f"t{at}"), decider, snapshot) == "n1"


def test_a_spread_pod_goes_to_the_emptiest_of_the_nodes_with_devices() -> None:
    """Scores still choose among nodes that the claims leave."""
    card = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "1"}
    plain = planned(
        [a_node(), a_class(), a_slice(a_device()), a_template("t", a_request()), a_pod(template="t", limits=card)]
    )
    assert why(plan=plain) == ["node unregistered"]


def test_an_idle_demand_has_nothing_to_do_with_claims() -> None:
    """Classes alone make no pod ask for claims."""
    snapshot = snapshot_of([a_node(), a_class()], REGISTRY)
    assert asked(a_pod(), Decider(REGISTRY), snapshot) == "n1"
    assert PodDemand(take_in(objects.pod(a_pod()), REGISTRY, Rules()).demand.devices).claims is None


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"allocationMode": "Most"}, "claim c, request r: allocationMode Most is not understood"),
        ({"novelty": 1}, "claim c, request r: novelty is not understood"),
    ],
)
def test_what_is_not_understood_of_a_claim_is_unknown(change: dict[str, Any], said: str) -> None:
    """It may keep the pod back, or not."""
    plan = planned(
        [a_node(), a_class(), a_slice(a_device()), a_template("t", a_request(**change)), a_pod(template="t")]
    )
    assert (plan.pods[0].stage, why(plan)) == ("unknown", [said])


def test_other_things_that_are_not_understood() -> None:
    """Of a constraint, of a class, and of a pod."""
    odd = a_template("odd", a_request(), constraints=[{"novelty": 1}])
    assert places([a_node(), a_class(), odd, a_pod(template="odd")]) == {"p": "unknown"}
    strange = a_class()
    strange["spec"]["selectors"] = [{"rego": "x"}]
    raws = [a_node(), strange, a_slice(a_device()), a_template("t", a_request())]
    assert why(planned([*raws, a_pod(template="t")])) == [
        "claim c, request r: selectors[0] is not a CEL expression of DeviceClass gpu is not understood"
    ]
    assert places([*raws, a_pod(claims=[{"name": "x"}])]) == {"p": "unknown"}


def test_every_node_says_what_is_wrong_with_a_pod_that_none_is_tried_for() -> None:
    """As every node says what it answers to others."""
    snapshot = snapshot_of(
        [a_node(), a_node("n2"), a_class(), a_slice(a_device()), a_claim("c", a_request())], REGISTRY
    )
    decider, found = Decider(REGISTRY), {}
    for claim in ("c", "nope"):
        intake = take_in(objects.pod(a_pod(claim=claim)), REGISTRY, Rules())
        answers = decider.answers(snapshot, intake.demand, intake.policy)
        found[claim] = [f"{entry.name}: {'fits' if isinstance(said, Fit) else said}" for entry, said in answers]
    assert found["c"] == ["n1: fits", "n2: no ResourceSlice has devices for this node"]
    assert found["nope"] == [f"{name}: claim c: there is no ResourceClaim default/nope" for name in ("n1", "n2")]
