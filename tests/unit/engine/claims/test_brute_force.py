"""Random small pools: there is a solution exactly where trying every assignment of devices finds one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import permutations, product
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from hami_plugins.engine.claims.needs import NeededClaim
from hami_plugins.engine.claims.pools import CounterScope, NodePool, PoolMember
from hami_plugins.engine.claims.rules import KUBERNETES_1_36
from hami_plugins.engine.claims.search import ClaimSearch, NodeDevices
from hami_plugins.model.claims import (
    NOWHERE,
    ClaimConstraint,
    ClaimedDevice,
    ClaimRequest,
    ClaimSpec,
    CounterUse,
    DeviceCapacity,
    DeviceChoice,
    DeviceTaint,
    PoolDevice,
    PoolId,
    PoolUsage,
    SliceDevice,
)
from hami_plugins.model.pods import Toleration

POOL = PoolId("d", "p")
RULES = KUBERNETES_1_36._replace(keeps_counters=False, forgets_values=False)
"""Without the two defects by which the scheduler misses or takes what it should not."""

COUNTERS = {"card": {"slices": 4}}
TAINT = DeviceTaint("sick", "", "NoSchedule")


class Case(NamedTuple):
    """Devices, those of them that are taken, and claims for them."""

    devices: tuple[SliceDevice, ...]
    taken: frozenset[str]
    claims: tuple[NeededClaim, ...]


@st.composite
def devices(draw: st.DrawFn) -> tuple[SliceDevice, ...]:
    """One to four devices, some shared, some parts of a card, some sick."""
    return tuple(
        SliceDevice(
            name=f"g{at}",
            attributes={"model": draw(st.sampled_from("ab"))} if draw(st.booleans()) else {},
            capacity={"memory": DeviceCapacity(draw(st.integers(1, 4)))},
            shared=draw(st.booleans()),
            taints=(TAINT,) if draw(st.integers(0, 4)) == 0 else (),
        )
        if draw(st.booleans())
        else SliceDevice(
            name=f"g{at}",
            attributes={"model": draw(st.sampled_from("ab"))},
            uses=(CounterUse("card", (("slices", draw(st.integers(1, 3))),)),),
        )
        for at in range(draw(st.integers(1, 4)))
    )


@st.composite
def choices(draw: st.DrawFn, name: str = "") -> DeviceChoice:
    """What one request may be met with."""
    return DeviceChoice(
        class_name="c",
        name=name,
        selectors=draw(st.sampled_from([(), ("a",), ("b",)])),
        count=draw(st.integers(1, 2)),
        tolerations=(Toleration("sick", "Exists"),) if draw(st.booleans()) else (),
        capacity=(("memory", draw(st.integers(1, 3))),) if draw(st.booleans()) else (),
    )


@st.composite
def claims(draw: st.DrawFn, name: str) -> NeededClaim:
    """A claim of one or two requests, one perhaps with alternatives, and perhaps a constraint."""
    requests = []
    for at in range(draw(st.integers(1, 2))):
        if draw(st.integers(0, 3)):
            requests.append(ClaimRequest(name=f"r{at}", choices=(draw(choices()),)))
        else:
            listed = (draw(choices("x")), draw(choices("y")))
            requests.append(ClaimRequest(name=f"r{at}", choices=listed, listed=True))
    constraint = ClaimConstraint(
        "d/model", draw(st.sampled_from([(), ("r0",), ("r0/x", "r1")])), distinct=draw(st.booleans())
    )
    constraints = (constraint,) if draw(st.booleans()) else ()
    return NeededClaim(name, "", ClaimSpec(requests=tuple(requests), constraints=constraints))


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """A node and a pod."""
    found = draw(devices())
    whole = [each.name for each in found if not each.shared]
    taken = frozenset(draw(st.lists(st.sampled_from(whole), max_size=1))) if whole else frozenset()
    return Case(found, taken, tuple(draw(claims(name)) for name in "ab"[: draw(st.integers(1, 2))]))


def chosen(device: SliceDevice, choice: DeviceChoice) -> bool:
    """A selector is the model that it wants."""
    return all(device.attributes.get("model") == each for each in choice.selectors)


def search(case: Case) -> ClaimSearch:
    """The search on the node."""
    scope = CounterScope("card", COUNTERS, tuple(each for each in case.devices if each.uses))
    members = tuple(
        PoolMember(PoolDevice(POOL, each.name), each, scope, case.devices, NOWHERE) for each in case.devices
    )
    usage = {POOL: PoolUsage(case.taken)}
    pools = (NodePool(id=POOL, members=members),)
    node = NodeDevices(pools, usage, lambda member, choice: chosen(member.device, choice), RULES)
    return ClaimSearch(node, case.claims, most_steps=1_000_000)


def assignments(case: Case) -> Iterator[list[list[tuple[ClaimRequest, DeviceChoice, SliceDevice]]]]:
    """Every way to give each request of each claim different devices, free or not."""
    wanted = [(at, request) for at, claim in enumerate(case.claims) for request in claim.spec.requests]
    for picked in product(*(request.choices for _, request in wanted)):
        pools = [permutations(case.devices, choice.count) for choice in picked]
        for given_devices in product(*pools):
            made: list[list[tuple[ClaimRequest, DeviceChoice, SliceDevice]]] = [[] for _ in case.claims]
            for (at, request), choice, found in zip(wanted, picked, given_devices, strict=True):
                made[at] += [(request, choice, device) for device in found]
            yield made


def is_allowed(case: Case, made: Sequence[Sequence[tuple[ClaimRequest, DeviceChoice, SliceDevice]]]) -> bool:
    """Whether an assignment breaks no rule, by the simplest accounting there is."""
    every = [one for of_claim in made for one in of_claim]
    for _, choice, device in every:
        tolerated = not device.taints or bool(choice.tolerations)
        if not chosen(device, choice) or not tolerated or device.name in case.taken:
            return False
        if not device.shared and sum(other is device for *_, other in every) > 1:
            return False
        if any(device.capacity.get(name, DeviceCapacity(-1)).value < amount for name, amount in choice.capacity):
            return False
    for device in case.devices:
        users = [choice for _, choice, other in every if other is device]
        if device.shared and users:
            has = device.capacity["memory"].value
            if sum(dict(choice.capacity).get("memory", has) for choice in users) > has:
                return False
    held = [each for each in case.devices if each.name in case.taken or any(other is each for *_, other in every)]
    if sum(use.amounts[0][1] for each in held for use in each.uses) > 4:
        return False
    return all(
        _holds(constraint, of_claim)
        for claim, of_claim in zip(case.claims, made, strict=True)
        for constraint in claim.spec.constraints
    )


def _holds(constraint: ClaimConstraint, made: Sequence[tuple[ClaimRequest, DeviceChoice, SliceDevice]]) -> bool:
    concerned = [
        device.attributes.get("model")
        for request, choice, device in made
        if not constraint.requests or {request.name, f"{request.name}/{choice.name}"} & set(constraint.requests)
    ]
    if None in concerned:
        return False
    return len(set(concerned)) == (len(concerned) if constraint.distinct else min(len(concerned), 1))


@settings(max_examples=400, deadline=None)
@given(cases())
def test_a_solution_is_found_exactly_where_there_is_one(case: Case) -> None:
    """And what is found breaks no rule."""
    found = search(case)
    exists = any(is_allowed(case, made) for made in assignments(case))
    assert found.found() is exists
    if exists:
        by_name = {each.name: each for each in case.devices}
        made = [
            [_back(claim, each, by_name) for each in results]
            for claim, results in zip(case.claims, found.results, strict=True)
        ]
        assert is_allowed(case, made)


def _back(
    claim: NeededClaim, result: ClaimedDevice, by_name: dict[str, SliceDevice]
) -> tuple[ClaimRequest, DeviceChoice, SliceDevice]:
    name, _, choice = result.request.partition("/")
    request = next(each for each in claim.spec.requests if each.name == name)
    return request, next(each for each in request.choices if each.name == choice), by_name[result.device.name]
