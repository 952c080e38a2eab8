"""Pods with claims, from the objects of a cluster to their places and devices."""

import pytest

from hami_plugins.engine.claims.rules import KUBERNETES_1_34, KUBERNETES_1_36
from tests.claim_objects import (
    CLASS,
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
    devices,
    exactly,
    first_of,
    given,
    places,
    planned,
    why,
)

TWO = a_slice(a_device("gpu-0", attributes={"model": "A100"}), a_device("gpu-1", attributes={"model": "H100"}))
ONE_EACH = a_template("one", a_request())


def test_devices_go_to_pods_until_there_are_none() -> None:
    """Two devices are for two pods."""
    pods = [a_pod(f"p{at}", template="one") for at in range(3)]
    assert places([a_node(), a_class(), TWO, ONE_EACH, *pods]) == {"p0": "n1", "p1": "n1", "p2": "nodes"}


def test_a_pod_without_place_is_told_what_is_in_use() -> None:
    """The numbers are those of the devices of the node."""
    pods = [a_pod("q", template="one"), a_pod("p", template="two")]
    plan = planned([a_node(), a_class(), TWO, ONE_EACH, a_template("two", a_request(count=2)), *pods])
    assert why(plan) == [
        "claim c, request r: 2 devices of gpu asked, 1 of 2 can be had: 1 in use",
    ]


def test_a_claim_alone_fits_nowhere_without_devices() -> None:
    """A node without a slice has no devices."""
    plan = planned([a_node(), a_class(), ONE_EACH, a_pod(template="one")])
    assert why(plan) == ["no ResourceSlice has devices for this node"]


def test_nothing_known_of_claims_is_unknown() -> None:
    """A listing without any object of the API group may have left them out."""
    plan = planned([a_node(), a_pod(template="one")])
    assert plan.pods[0].stage == "unknown"
    assert why(plan) == [
        "claim c: there is no ResourceClaimTemplate default/one among what was read, and no other object of claims; "
        "list resourceslices,deviceclasses,resourceclaims,resourceclaimtemplates as well"
    ]


@pytest.mark.parametrize(
    ("pod", "said", "event"),
    [
        (a_pod(template="x"), "claim c: there is no ResourceClaimTemplate default/x", "ResourceClaim not created yet"),
        (a_pod(claim="x"), "claim c: there is no ResourceClaim default/x", 'resourceclaim "x" not found'),
        (
            a_pod(template="classless"),
            "claim c, request r: there is no DeviceClass nope",
            "request r: device class nope does not exist",
        ),
        (
            a_pod(template="listed"),
            "claim c, request r/b: there is no DeviceClass nope",
            "request r/b: device class nope does not exist",
        ),
    ],
)
def test_a_claim_that_refers_to_nothing_is_refused(pod: dict[str, object], said: str, event: str) -> None:
    """The scheduler's own words are there as well."""
    listed = a_template("listed", first_of("r", a=exactly(), b=exactly(of="nope")))
    plan = planned([a_node(), a_class(), TWO, a_template("classless", a_request(of="nope")), listed, pod])
    assert (why(plan), plan.pods[0].words) == ([said], event)


def test_selectors_of_class_and_request_both_count() -> None:
    """The second device alone is chosen by both."""
    picky = a_template("picky", a_request("r", f'device.attributes["{DRIVER}"].model == "H100"'))
    plan = planned([a_node(), a_class(), TWO, picky, a_pod(template="picky")])
    assert devices(plan) == ["r=gpu-1"]


def test_a_selector_that_ends_in_an_error_stops_the_pod() -> None:
    """kube-scheduler aborts, whatever other nodes have."""
    wrong = a_template("wrong", a_request("r", f'device.attributes["{DRIVER}"].nope == 1'))
    bare = a_slice(a_device(attributes={"nope": 1}), node="n2")
    plan = planned([a_node(), a_node("n2"), a_class(), TWO, bare, wrong, a_pod(template="wrong")])
    assert why(plan) == ["kube-scheduler stops: selector #0 of the request: CEL error: no such key: nope"]


def test_a_selector_that_is_not_evaluated_is_unknown() -> None:
    """An expression that the library cannot evaluate is not guessed."""
    strange = a_template("strange", a_request("r", f'device.attributes["{DRIVER}"].?model.orValue("") == ""'))
    plan = planned([a_node(), a_class(), TWO, strange, a_pod(template="strange")])
    assert plan.pods[0].stage == "unknown"


def test_another_node_takes_a_pod_that_one_is_not_known_of() -> None:
    """A device with a member that is not known here is on one of two nodes."""
    strange = a_slice(a_device(novelty=1), node="n0")
    assert places([a_node("n0"), a_node(), a_class(), strange, TWO, ONE_EACH, a_pod(template="one")]) == {"p": "n1"}
    plan = planned([a_node("n0"), a_class(), strange, ONE_EACH, a_pod(template="one")])
    assert why(plan) == [f"not known: device {DRIVER}/n0/gpu-0: novelty is not understood"]


def test_binding_conditions_are_unknown() -> None:
    """Something has to happen first, which is not decided here."""
    slow = a_slice(a_device(bindingConditions=["attached"], bindingFailureConditions=["failed"]))
    assert places([a_node(), a_class(), slow, ONE_EACH, a_pod(template="one")]) == {"p": "unknown"}


def test_devices_for_all_nodes_are_given_out_once() -> None:
    """A device that every node reaches goes to one pod."""
    shared = a_slice(a_device(), node=None, allNodes=True)
    pods = [a_pod("p", template="one"), a_pod("q", template="one")]
    assert places([a_node(), a_node("n2"), a_class(), shared, ONE_EACH, *pods]) == {"p": "n1", "q": "nodes"}


def test_a_node_selector_chooses_the_nodes_of_a_slice() -> None:
    """Only one of the nodes has the label."""
    terms = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "rack", "operator": "In", "values": ["a"]}]}]}
    shared = a_slice(a_device(), node=None, nodeSelector=terms)
    nodes = [a_node("n0"), a_node("n5", labels={"rack": "a"})]
    assert places([*nodes, a_class(), shared, ONE_EACH, a_pod(template="one")]) == {"p": "n5"}


def test_devices_with_their_own_nodes() -> None:
    """Each device of the slice says which nodes it is for."""
    each = a_slice(a_device("a", nodeName="n0"), a_device("b", allNodes=True), node=None, perDeviceNodeSelection=True)
    base = [a_node("n0"), a_node("n1"), a_node("n2"), a_class(), each, ONE_EACH]
    pods = [a_pod(f"p{at}", template="one", nodeSelector={}) for at in range(3)]
    pods[0]["spec"]["nodeName"] = "n9"
    assert places([*base, *pods[1:]]) == {"p1": "n0", "p2": "n0"}


def test_a_claim_with_devices_keeps_its_pods_on_their_node() -> None:
    """The second node has free devices, and the claim's are on the first."""
    claim = a_claim("c", a_request(), **given("gpu-0", users=["other"]))
    base = [a_node(), a_node("n0"), a_class(), TWO, claim]
    assert places([*base, a_pod(claim="c")]) == {"p": "n1"}
    plan = planned([a_node("n0"), a_class(), claim, a_pod(claim="c")])
    assert why(plan) == [f"claim c: default/c has its devices ({DRIVER}/n1/gpu-0), which other nodes use"]
    assert plan.pods[0].words == "resourceclaim not available on the node"


def test_pods_share_a_claim() -> None:
    """Both are on the node of the one device, and other pods do not get it."""
    base = [a_node(), a_node("n0"), a_class(), a_slice(a_device()), a_claim("c", a_request()), ONE_EACH]
    pods = [a_pod("p", claim="c"), a_pod("q", claim="c"), a_pod("late", template="one")]
    assert places([*base, *pods]) == {"p": "n1", "q": "n1", "late": "nodes"}


def test_a_claim_that_is_being_deleted_is_not_used() -> None:
    """Its pods wait."""
    claim = a_claim("c", a_request())
    claim["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert why(planned([a_node(), a_class(), TWO, claim, a_pod(claim="c")])) == [
        "claim c: ResourceClaim default/c is being deleted"
    ]


def test_the_claim_that_was_made_for_a_pod_counts() -> None:
    """A pod of the API server says which claim its controller has made."""
    made = a_claim("p-c-x7", a_request(), **given("gpu-1"))
    pod = a_pod(template="gone")
    pod["status"] = {"resourceClaimStatuses": [{"name": "c", "resourceClaimName": "p-c-x7"}]}
    assert devices(planned([a_node(), a_class(), TWO, made, pod])) == ["r=gpu-1"]


def test_a_claim_that_was_not_needed_is_left_out() -> None:
    """The controller has reported that it made none."""
    pod = a_pod(template="gone")
    pod["status"] = {"resourceClaimStatuses": [{"name": "c"}]}
    assert places([a_node(), a_class(), TWO, pod]) == {"p": "n1"}


def test_all_devices_of_a_class() -> None:
    """All that are chosen, and only if all are free."""
    everything = a_template("all", a_request(allocationMode="All"))
    base = [a_node(), a_class(), TWO, everything, ONE_EACH]
    assert devices(planned([*base, a_pod(template="all")])) == ["r=gpu-0", "r=gpu-1"]
    assert places([*base, a_pod("one", template="one"), a_pod(template="all")]) == {"one": "n1", "p": "nodes"}
    assert places([a_node(), a_class(), everything, a_pod(template="all")]) == {"p": "nodes"}


def test_admin_access_takes_nothing() -> None:
    """A monitor has devices that are in use, and others can still have them."""
    monitor = a_template("monitor", a_request(allocationMode="All", adminAccess=True))
    pods = [a_pod("a", template="one"), a_pod("m", template="monitor"), a_pod("b", template="one")]
    plan = planned([a_node(), a_class(), TWO, monitor, ONE_EACH, *pods])
    assert devices(plan, "m") == ["r=gpu-0", "r=gpu-1"]
    assert devices(plan, "b") == ["r=gpu-1"]


def test_one_request_with_admin_access_has_different_devices() -> None:
    """Twice the same device in one claim is of no use."""
    twice = a_template("twice", a_request(count=2, adminAccess=True))
    assert devices(planned([a_node(), a_class(), TWO, twice, a_pod(template="twice")])) == ["r=gpu-0", "r=gpu-1"]
    assert places([a_node(), a_class(), a_slice(a_device()), twice, a_pod(template="twice")]) == {"p": "nodes"}


def test_match_attribute_ties_devices_together() -> None:
    """Two of one model are further down the list."""
    mixed = a_slice(*(a_device(f"gpu-{at}", attributes={"model": model}) for at, model in enumerate("ABCB")))
    same = [{"matchAttribute": f"{DRIVER}/model", "requests": ["r"]}]
    pair = a_template("pair", a_request(count=2), constraints=same)
    assert devices(planned([a_node(), a_class(), mixed, pair, a_pod(template="pair")])) == ["r=gpu-1", "r=gpu-3"]
    three = a_template("three", a_request(count=3), constraints=same)
    assert why(planned([a_node(), a_class(), mixed, three, a_pod(template="three")])) == [
        f"the devices for all requests of c cannot be had together with matchAttribute {DRIVER}/model"
    ]


def test_a_constraint_holds_only_its_requests() -> None:
    """The other request may have any model."""
    mixed = a_slice(*(a_device(f"gpu-{at}", attributes={"model": model}) for at, model in enumerate("ABB")))
    same = [{"matchAttribute": f"{DRIVER}/model", "requests": ["r", "s/x"]}]
    requests = [a_request("free"), a_request("r"), first_of("s", x=exactly())]
    tied = a_template("tied", *requests, constraints=same)
    plan = planned([a_node(), a_class(), mixed, tied, a_pod(template="tied")])
    assert devices(plan) == ["free=gpu-0", "r=gpu-1", "s/x=gpu-2"]


def test_a_device_without_the_attribute_is_not_matched() -> None:
    """It counts as unusable, and the reason names the attribute."""
    same = [{"matchAttribute": f"{DRIVER}/numa"}]
    pair = a_template("pair", a_request(), constraints=same)
    assert why(planned([a_node(), a_class(), TWO, pair, a_pod(template="pair")])) == [
        f"claim c, request r: 1 device of gpu asked, 0 of 2 can be had: 2 without attribute {DRIVER}/numa"
    ]


def test_distinct_attributes_keep_devices_apart() -> None:
    """1.34 compares where values are stored, so that two devices always differ."""
    alike = a_slice(*(a_device(f"gpu-{at}", attributes={"model": model}) for at, model in enumerate("AAB")))
    other = [{"distinctAttribute": f"{DRIVER}/model"}]
    apart = a_template("apart", a_request("r"), a_request("s"), constraints=other)
    raws = [a_node(), a_class(), alike, apart, a_pod(template="apart")]
    assert devices(planned(raws)) == ["r=gpu-0", "s=gpu-2"]
    assert devices(planned(raws, KUBERNETES_1_34)) == ["r=gpu-0", "s=gpu-1"]


def test_the_first_choice_that_can_be_had_is_taken() -> None:
    """Two H100 are not there, so it is one A100."""
    listed = first_of(
        "r",
        big=exactly(f'device.attributes["{DRIVER}"].model == "H100"', count=2),
        small=exactly(f'device.attributes["{DRIVER}"].model == "A100"'),
    )
    raws = [a_node(), a_class(), TWO, a_template("listed", listed)]
    assert devices(planned([*raws, a_pod(template="listed")])) == ["r/small=gpu-0"]
    plan = planned([*raws, a_pod("q", template="listed"), a_pod(template="listed")])
    assert why(plan) == [
        "claim c, request r/big: 2 devices of gpu asked, 1 of 2 can be had: 1 not selected; "
        "claim c, request r/small: 1 device of gpu asked, 0 of 2 can be had: 1 in use, 1 not selected"
    ]


def test_a_later_request_changes_the_choice_of_an_earlier_one() -> None:
    """The device that the second request needs is given back by the first."""
    first = a_request("first")
    second = a_request("second", f'device.attributes["{DRIVER}"].model == "A100"')
    plan = planned([a_node(), a_class(), TWO, a_template("t", first, second), a_pod(template="t")])
    assert devices(plan) == ["first=gpu-1", "second=gpu-0"]


@pytest.mark.parametrize("rules", [KUBERNETES_1_34, KUBERNETES_1_36])
def test_memory_of_a_card_is_shared(rules: object) -> None:
    """Two pods with 40 GiB each have one card, the third has none."""
    pods = [a_pod(f"p{at}", template="share") for at in range(3)]
    raws = [a_node(), a_class(), a_slice(a_card()), a_template("share", a_request(memory="40Gi")), *pods]
    assert places(raws, rules) == {"p0": "n1", "p1": "n1", "p2": "nodes"}  # type: ignore[arg-type]


def test_a_full_first_card_hides_the_others_in_1_34() -> None:
    """It compares the wrong card once more; 1.36 does not."""
    pods = [a_pod(f"p{at}", template="share") for at in range(2)]
    cards = a_slice(a_card("gpu-0"), a_card("gpu-1"))
    raws = [a_node(), a_class(), cards, a_template("share", a_request(memory="60Gi")), *pods]
    assert places(raws) == {"p0": "n1", "p1": "n1"}
    assert places(raws, KUBERNETES_1_34) == {"p0": "n1", "p1": "nodes"}


def test_two_units_of_a_request_are_two_cards() -> None:
    """Only 1.34 takes two shares of one card."""
    raws = [a_node(), a_class(), a_slice(a_card()), a_template("two", a_request(memory="10Gi", count=2))]
    assert places([*raws, a_pod(template="two")]) == {"p": "nodes"}


def test_two_requests_may_share_a_card() -> None:
    """One claim may have two shares of one card."""
    both = a_template("both", a_request("r", memory="30Gi"), a_request("s", memory="30Gi"))
    plan = planned([a_node(), a_class(), a_slice(a_card(), a_card("gpu-1")), both, a_pod(template="both")])
    assert devices(plan) == ["r=gpu-0", "s=gpu-0"]


def test_what_is_missing_of_a_capacity_is_told() -> None:
    """With the numbers; a capacity that a device lacks is another reason."""
    asked = a_template("asked", a_request(memory="100Gi"))
    raws = [a_node(), a_class(), a_slice(a_card(), a_device("plain")), asked, a_pod(template="asked")]
    assert why(planned(raws)) == [
        "claim c, request r: 1 device of gpu asked, 0 of 2 can be had: 1 short of memory (100Gi asked, 80Gi free), "
        "1 without capacity memory"
    ]


def test_a_policy_refuses_an_amount() -> None:
    """More than its most is refused, although there is room."""
    card = a_card(policy={"default": "1Gi", "validRange": {"min": "1Gi", "max": "8Gi", "step": "1Gi"}})
    asked = a_template("asked", a_request(memory="9Gi"))
    assert why(planned([a_node(), a_class(), a_slice(card), asked, a_pod(template="asked")])) == [
        "claim c, request r: 1 device of gpu asked, 0 of 1 can be had: 1 whose policy refuses 9Gi of memory"
    ]


COUNTERS = [{"name": "card", "counters": {"slices": {"value": "4"}}}]


def part(name: str, amount: int) -> dict[str, object]:
    """A part of a card."""
    uses = [{"counterSet": "card", "counters": {"slices": {"value": str(amount)}}}]
    return a_device(name, consumesCounters=uses)


PARTS = (part("whole", 4), part("half-a", 2), part("half-b", 2), part("quarter", 1))


def partitioned(slices: int = 2) -> list[dict[str, object]]:
    """A card in parts: devices and counters in two slices."""
    return [
        a_slice(*PARTS, name="parts", slices=slices),
        a_slice(name="counters", slices=slices, sharedCounters=COUNTERS),
    ]


def by_name(name: str) -> dict[str, object]:
    """A template for the devices of a kind."""
    return a_template(name, a_request("r", f'device.attributes["{DRIVER}"].kind == "{name}"'))


@pytest.mark.parametrize("together", [True, False])
def test_parts_of_a_card_use_its_counters(*, together: bool) -> None:
    """1.34 has counters in the slice of the devices, 1.36 in one of their own."""
    kinds = {"whole": "whole", "half-a": "half", "half-b": "half", "quarter": "quarter"}
    made = [each | {"attributes": {"kind": {"string": kinds[str(each["name"])]}}} for each in PARTS]
    slices = [a_slice(*made, name="parts", slices=2), a_slice(name="counters", slices=2, sharedCounters=COUNTERS)]
    if together:
        slices = [a_slice(*made, sharedCounters=COUNTERS)]
    rules = KUBERNETES_1_34 if together else KUBERNETES_1_36
    pods = [
        a_pod(name, template=kind) for name, kind in (("a", "half"), ("b", "whole"), ("c", "half"), ("d", "quarter"))
    ]
    raws = [a_node(), a_class(), *slices, by_name("half"), by_name("whole"), by_name("quarter"), *pods]
    assert places(raws, rules) == {"a": "n1", "b": "nodes", "c": "n1", "d": "nodes"}
    plan = planned(raws, rules)
    assert why(plan, "d") == [
        "claim c, request r: 1 device of gpu asked, 0 of 4 can be had: 3 not selected, 1 short of counter card/slices"
    ]


def test_a_pool_with_a_missing_slice_is_not_used() -> None:
    """1.34 uses what is there."""
    raws = [a_node(), a_class(), a_slice(a_device(), slices=2), ONE_EACH, a_pod(template="one")]
    assert why(planned(raws)) == [f"pool {DRIVER}/n1: generation 1 is incomplete, 1 slice of it not published yet"]
    assert places(raws, KUBERNETES_1_34) == {"p": "n1"}


def test_only_the_newest_generation_counts() -> None:
    """The device of the old one is not there any more."""
    slices = [a_slice(a_device("old"), a_device("older")), a_slice(a_device("new"), generation=2)]
    pods = [a_pod("p", template="one"), a_pod("q", template="one")]
    plan = planned([a_node(), a_class(), *slices, ONE_EACH, *pods])
    assert devices(plan) == ["r=new"]
    assert plan.pods[1].stage == "nodes"


def test_a_newer_generation_elsewhere_makes_a_pool_obsolete() -> None:
    """Its slice for the node is of the past."""
    slices = [a_slice(a_device(), pool="x", slices=2), a_slice(a_device(), pool="x", node="n2", generation=2, slices=2)]
    plan = planned([a_node(), a_class(), *slices, ONE_EACH, a_pod(template="one")])
    assert why(plan) == ["no ResourceSlice has devices for this node"]


@pytest.mark.parametrize(
    ("slices", "wrong"),
    [
        ([a_slice(a_device("a"), a_device("a"))], "duplicate device name a"),
        ([a_slice(part("a", 1))], "counter set card not found"),
        (
            [
                a_slice(name="x", slices=2, sharedCounters=COUNTERS),
                a_slice(name="y", slices=2, sharedCounters=COUNTERS),
            ],
            "duplicate counter set name card",
        ),
        (
            [
                a_slice(part("a", 1), name="x", slices=2),
                a_slice(name="y", slices=2, sharedCounters=[{"name": "card", "counters": {"other": {"value": "1"}}}]),
            ],
            "counter slices not found in counter set card",
        ),
    ],
)
def test_an_invalid_pool_is_not_used(slices: list[dict[str, object]], wrong: str) -> None:
    """The reason is that of the scheduler."""
    plan = planned([a_node(), a_class(), *slices, ONE_EACH, a_pod(template="one")])
    assert why(plan) == [f"pool {DRIVER}/n1 is invalid: {wrong}"]


def test_an_invalid_pool_stops_1_34() -> None:
    """It ends the scheduling with an error."""
    raws = [a_node(), a_class(), a_slice(a_device("a"), a_device("a")), ONE_EACH, a_pod(template="one")]
    assert why(planned(raws, KUBERNETES_1_34)) == ["kube-scheduler stops: pool n1 is invalid: duplicate device name a"]


@pytest.mark.parametrize(("slices", "state"), [(2, "being updated"), (1, "invalid")])
def test_all_devices_of_a_pool_that_is_not_understood(slices: int, state: str) -> None:
    """That many are not known, so the scheduler stops."""
    pool = a_slice(a_device("a"), *([a_device("a")] if slices == 1 else []), slices=slices)
    everything = a_template("all", a_request(allocationMode="All"))
    assert why(planned([a_node(), a_class(), pool, everything, a_pod(template="all")])) == [
        f"kube-scheduler stops: claim c, request r: asks for all devices, but resource pool {DRIVER}/n1 is currently "
        f"{state}"
    ]


TAINT = {"key": "sick", "value": "yes", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("tolerations", "node"),
    [
        ([], "nodes"),
        ([{"key": "sick", "operator": "Exists"}], "n1"),
        ([{"key": "sick", "value": "yes", "effect": "NoSchedule"}], "n1"),
        ([{"key": "sick", "value": "no"}], "nodes"),
        ([{"key": "other", "operator": "Exists"}], "nodes"),
        ([{"operator": "Exists", "effect": "NoExecute"}], "nodes"),
        ([{"key": "sick", "operator": "Lt", "value": "yes"}], "nodes"),
    ],
)
def test_tainted_devices_are_for_requests_that_tolerate(tolerations: list[dict[str, str]], node: str) -> None:
    """As the taints of nodes for pods."""
    tolerant = a_template("t", a_request(tolerations=tolerations))
    raws = [a_node(), a_class(), a_slice(a_device(taints=[TAINT])), tolerant, a_pod(template="t")]
    assert places(raws) == {"p": node}


def test_what_repels_is_told() -> None:
    """With key, value and effect; an effect that only informs does not repel from 1.36 on."""
    raws = [a_node(), a_class(), a_slice(a_device(taints=[TAINT])), ONE_EACH, a_pod(template="one")]
    assert why(planned(raws)) == [
        "claim c, request r: 1 device of gpu asked, 0 of 1 can be had: 1 tainted sick=yes:NoSchedule"
    ]
    told = [a_node(), a_class(), a_slice(a_device(taints=[{"key": "x", "effect": "None"}])), ONE_EACH]
    assert places([*told, a_pod(template="one")]) == {"p": "n1"}
    assert places([*told, a_pod(template="one")], KUBERNETES_1_34) == {"p": "nodes"}


def test_a_claim_has_no_more_than_32_devices() -> None:
    """33 pass the API server and stop the scheduler; a shorter choice is still tried."""
    many = a_slice(*(a_device(f"gpu-{at:02}") for at in range(40)))
    raws = [a_node(), a_class(), many]
    assert why(planned([*raws, a_template("t", a_request(count=33)), a_pod(template="t")])) == [
        "kube-scheduler stops: number of requested devices exceeds the claim limit of 32"
    ]
    listed = first_of("s", a=exactly(count=20), b=exactly(count=2))
    plan = planned([*raws, a_template("t", a_request(count=30), listed), a_pod(template="t")])
    assert devices(plan)[-1] == "s/b=gpu-31"
    two = [
        first_of("r", a=exactly(count=31), b=exactly(count=20)),
        first_of("s", a=exactly(count=13), b=exactly(count=13)),
    ]
    plan = planned([*raws, a_template("t", *two), a_pod(template="t")])
    assert plan.pods[0].stage == "nodes"


def test_a_choice_after_which_nothing_goes_is_left() -> None:
    """Both choices of the second request exceed the limit together with 31 devices."""
    many = a_slice(*(a_device(f"gpu-{at:02}") for at in range(40)))
    first = first_of("r", a=exactly(count=31), b=exactly(count=10))
    second = first_of("s", a=exactly(count=13), b=exactly(count=14))
    plan = planned([a_node(), a_class(), many, a_template("t", first, second), a_pod(template="t")])
    assert len(devices(plan)) == 23


def test_a_search_that_is_too_long_is_unknown() -> None:
    """Sixteen of one kind among many of different ones cannot be had, and to be sure of it takes too long."""
    many = a_slice(*(a_device(f"gpu-{at:02}", attributes={"x": at % 9}) for at in range(90)))
    same = [{"matchAttribute": f"{DRIVER}/x", "requests": ["r"]}, {"matchAttribute": f"{DRIVER}/x", "requests": ["s"]}]
    t = a_template("t", a_request("r", count=8), a_request("s", count=11), constraints=same)
    plan = planned([a_node(), a_class(), many, t, a_pod(template="t")])
    assert why(plan) == ["not known: not decided after 20,000 tried devices"]


MAPPED = a_class(CLASS, extendedResourceName="example.com/gpu")
EXTENDED = {"example.com/gpu": "1"}


def test_a_class_stands_for_a_plain_resource() -> None:
    """The node has no device plugin for it."""
    pods = [a_pod(f"p{at}", limits=EXTENDED) for at in range(3)]
    plan = planned([a_node(), MAPPED, TWO, *pods])
    assert [each.stage.value for each in plan.pods] == ["placed", "placed", "nodes"]
    assert devices(plan, "p1") == ["container-0-example.com/gpu=gpu-1"]
    assert why(plan, "p2") == [
        "request container-0-example.com/gpu: 1 device of gpu asked, 0 of 2 can be had: 2 in use"
    ]


def test_the_device_plugin_of_a_node_comes_first() -> None:
    """Its number counts, and slices are not looked at for that name."""
    node = a_node(resources={"example.com/gpu": "1"})
    pods = [a_pod(f"p{at}", limits=EXTENDED) for at in range(2)]
    assert places([node, MAPPED, TWO, *pods]) == {"p0": "n1", "p1": "nodes"}


def test_a_plugin_that_is_gone_leaves_a_zero() -> None:
    """1.34 takes it for a plugin without devices."""
    raws = [a_node(resources={"example.com/gpu": "0"}), MAPPED, TWO, a_pod(limits=EXTENDED)]
    assert places(raws) == {"p": "n1"}
    assert places(raws, KUBERNETES_1_34) == {"p": "nodes"}


def test_a_class_without_a_name_for_it_has_an_implicit_one() -> None:
    """The prefix is Kubernetes' own."""
    wanted = {"deviceclass.resource.kubernetes.io/gpu": "2"}
    assert devices(planned([a_node(), a_class(), TWO, a_pod(limits=wanted)])) == [
        "container-0-deviceclass.resource.kubernetes.io/gpu=gpu-0",
        "container-0-deviceclass.resource.kubernetes.io/gpu=gpu-1",
    ]


def test_a_resource_of_shared_devices_that_a_class_stands_for_is_unknown() -> None:
    """Where the node registers none, the class may give them."""
    mapped = a_class(CLASS, extendedResourceName="nvidia.com/gpu")
    plan = planned([a_node(), mapped, TWO, a_pod(limits={"nvidia.com/gpu": "1"})])
    assert why(plan) == [
        "not known: a DeviceClass stands for nvidia.com/gpu, of which this node registers none",
    ]


def test_a_claim_beside_plain_resources() -> None:
    """Both are given devices of one pool."""
    pod = a_pod(template="one", limits=EXTENDED)
    assert devices(planned([a_node(), MAPPED, TWO, ONE_EACH, pod])) == ["r=gpu-0", "container-0-example.com/gpu=gpu-1"]


def test_shares_of_a_part_use_its_counters_once() -> None:
    """From 1.35 on a card that is shared already needs no more of them."""
    card = a_card("card", consumesCounters=[{"counterSet": "card", "counters": {"slices": {"value": "4"}}}])
    slices = [a_slice(card, name="x", slices=2), a_slice(name="y", slices=2, sharedCounters=COUNTERS)]
    share = a_template("share", a_request("r", memory="10Gi"), a_request("s", memory="10Gi"))
    pods = [a_pod("p", template="share"), a_pod("q", template="share")]
    assert places([a_node(), a_class(), *slices, share, *pods]) == {"p": "n1", "q": "n1"}
    together = a_slice(card, sharedCounters=COUNTERS)
    raws = [a_node(), a_class(), together, a_template("one", a_request(memory="10Gi")), a_pod(template="one")]
    assert places(raws, KUBERNETES_1_34) == {"p": "n1"}


def test_an_attribute_may_be_written_with_its_domain() -> None:
    """In the slice as in the constraint; that of another domain is another one."""
    named = a_slice(*(a_device(f"gpu-{at}", attributes={"acme.io/rack": at // 2}) for at in range(3)))
    pair = a_template("pair", a_request(count=2), constraints=[{"matchAttribute": "acme.io/rack"}])
    assert devices(planned([a_node(), a_class(), named, pair, a_pod(template="pair")])) == ["r=gpu-0", "r=gpu-1"]
    other = a_template("pair", a_request(count=2), constraints=[{"matchAttribute": "other.io/rack"}])
    assert places([a_node(), a_class(), named, other, a_pod(template="pair")]) == {"p": "nodes"}


def test_a_pool_may_span_nodes() -> None:
    """It is complete with the slices of all of them."""
    slices = [a_slice(a_device(f"on-{node}"), pool="x", node=node, name=node, slices=2) for node in ("n1", "n2")]
    assert devices(planned([a_node(), a_class(), *slices, ONE_EACH, a_pod(template="one")])) == ["r=on-n1"]


def test_one_free_part_is_not_two() -> None:
    """The counters are enough for one of them."""
    slices = [a_slice(part("a", 1), name="x", slices=2), a_slice(name="y", slices=2, sharedCounters=COUNTERS)]
    two = a_template("two", a_request(count=2))
    assert why(planned([a_node(), a_class(), *slices, two, a_pod(template="two")])) == [
        "claim c, request r: 2 devices of gpu asked, 1 of 1 can be had"
    ]


def test_counters_of_another_slice_are_none_in_1_34() -> None:
    """A device that uses them is given out as if it used none."""
    raws = [a_node(), a_class(), a_slice(part("a", 9), part("b", 9)), ONE_EACH]
    pods = [a_pod("p", template="one"), a_pod("q", template="one")]
    assert places([*raws, *pods], KUBERNETES_1_34) == {"p": "n1", "q": "n1"}


def test_a_plain_request_makes_an_earlier_choice_smaller() -> None:
    """31 and 20 devices are more than a claim can have."""
    many = a_slice(*(a_device(f"gpu-{at:02}") for at in range(40)))
    listed = first_of("r", a=exactly(count=31), b=exactly(count=1))
    plan = planned([a_node(), a_class(), many, a_template("t", listed, a_request("s", count=20)), a_pod(template="t")])
    assert len(devices(plan)) == 21


def test_what_a_sick_part_would_take_of_counters_counts() -> None:
    """The scheduler counts it before it looks at the taint, so that the healthy part does not fit any more."""
    sick = part("sick", 3) | {"taints": [TAINT]}
    slices = [a_slice(sick, part("well", 3), name="x", slices=2), a_slice(name="y", slices=2, sharedCounters=COUNTERS)]
    raws = [a_node(), a_class(), *slices, ONE_EACH, a_pod(template="one")]
    assert places(raws) == {"p": "nodes"}
    assert places(raws, KUBERNETES_1_36._replace(keeps_counters=False)) == {"p": "n1"}


def test_all_devices_that_a_constraint_speaks_against_stop_the_scheduler() -> None:
    """All of them is the only choice."""
    everything = a_template("all", a_request(allocationMode="All"), constraints=[{"matchAttribute": f"{DRIVER}/model"}])
    assert why(planned([a_node(), a_class(), TWO, everything, a_pod(template="all")])) == [
        f"kube-scheduler stops: claim c, request r: cannot add device {DRIVER}/n1/gpu-1 because a claim constraint "
        "would not be satisfied"
    ]


def test_1_34_ends_with_a_panic_where_units_outnumber_the_devices_of_a_slice() -> None:
    """It compares the room of the device of that number, which is not there; what follows is not known."""
    slices = [a_slice(a_device("a"), name="x", slices=2), a_slice(a_device("b"), name="y", slices=2)]
    raws = [a_node(), a_class(), *slices, a_template("two", a_request(count=2)), a_pod(template="two")]
    assert places(raws) == {"p": "n1"}
    assert places(raws, KUBERNETES_1_34) == {"p": "unknown"}


def test_a_share_that_is_taken_back_leaves_its_room() -> None:
    """The second request needs nearly all of the card that the first one tried."""
    first, second = a_request("first", memory="30Gi"), a_request("second", memory="60Gi")
    second["exactly"]["selectors"] = [{"cel": {"expression": f'"near" in device.attributes["{DRIVER}"]'}}]
    cards = a_slice(a_card("gpu-0", attributes={"near": True}), a_card("gpu-1"))
    plan = planned([a_node(), a_class(), cards, a_template("t", first, second), a_pod(template="t")])
    assert devices(plan) == ["first=gpu-1", "second=gpu-0"]
