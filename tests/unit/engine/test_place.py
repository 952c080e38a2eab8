"""A whole pod on one node."""

from collections.abc import Mapping
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from hami_plugins.engine.headroom import HeadroomComparison
from hami_plugins.engine.place import NEUTRAL_WEIGHT, Placer
from hami_plugins.engine.policies import device_order
from hami_plugins.engine.registry import Registry
from hami_plugins.model.devices import DeviceShare, Instance, Profile, SlicePlacement
from hami_plugins.model.nodes import NodeShape, NodeState
from hami_plugins.model.policy import DEFAULT_POLICY, NodePolicy, Policy
from hami_plugins.model.requests import (
    ContainerDemand,
    ContainerKind,
    DeviceDemand,
    DeviceRequest,
    DeviceSelector,
    Percent,
)
from hami_plugins.model.units import CoreShare, DeviceId, MiB, VendorName
from hami_plugins.model.vendor import Candidate, ContainerRequest, Headroom, Scoring, VendorSpec
from hami_plugins.model.vendor_names import ResourceNames
from hami_plugins.model.verdicts import Fit, NoFit, Reason, Verdict
from tests import acme, acme_variants
from tests.builders import ACME, a_demand, a_device, a_request, a_state, used

INIT, SIDECAR, APP = ContainerKind.INIT, ContainerKind.SIDECAR, ContainerKind.APP
BETA = replace(
    acme.SPEC,
    name=VendorName("Beta"),
    resources=ResourceNames(count="beta.example/card"),
    keys=replace(acme.SPEC.keys, allocated="hami.io/beta-devices-allocated"),
)


def placed(
    demand: DeviceDemand,
    state: NodeState,
    *specs: VendorSpec,
    policy: Policy = DEFAULT_POLICY,
    headroom: Mapping[VendorName, Headroom] | None = None,
    mask: Mapping[VendorName, frozenset[int]] | None = None,
) -> Verdict:
    quota = None if headroom is None else HeadroomComparison(tuple(headroom.items()))
    return Placer(demand, policy, Registry(specs or (acme.SPEC,)))(state, mask, quota=quota)


def positions(verdict: Verdict) -> list[list[int]]:
    assert isinstance(verdict, Fit), verdict
    return [[share.position for share in container.shares()] for container in verdict.containers]


def refusal(verdict: Verdict) -> NoFit:
    assert isinstance(verdict, NoFit), verdict
    return verdict


def init(*requests: DeviceRequest) -> ContainerDemand:
    return ContainerDemand(INIT, requests)


def sidecar(*requests: DeviceRequest) -> ContainerDemand:
    return ContainerDemand(SIDECAR, requests)


def app(*requests: DeviceRequest) -> ContainerDemand:
    return ContainerDemand(APP, requests)


TWO = a_state(a_device(), a_device(index=1))
ONE = a_state(a_device(memory=1_000))


def test_each_container_gets_its_shares_in_the_pods_order() -> None:
    demand = a_demand(a_request(count=2), app(), a_request())
    assert positions(placed(demand, TWO)) == [[1, 0], [], [1]]


def test_applications_see_what_earlier_ones_took() -> None:
    demand = a_demand(a_request(memory=700), a_request(memory=400))
    found = refusal(placed(demand, ONE))
    assert (found.container, found.vendor, dict(found.reasons)) == (1, ACME, {Reason.MEMORY: 1})


def test_init_containers_leave_nothing_behind() -> None:
    demand = a_demand(init(a_request(memory=1_000)), init(a_request(memory=900)), a_request(memory=1_000))
    assert positions(placed(demand, ONE)) == [[0], [0], [0]]


def test_sidecars_stay() -> None:
    assert isinstance(placed(a_demand(sidecar(a_request(memory=600)), a_request(memory=600)), ONE), NoFit)
    assert isinstance(placed(a_demand(sidecar(a_request(memory=600)), init(a_request(memory=600))), ONE), NoFit)
    assert positions(placed(a_demand(init(a_request(memory=600)), sidecar(a_request(memory=600))), ONE)) == [[0], [0]]


def test_what_others_hold_counts_for_every_container() -> None:
    busy = a_state(a_device(memory=1_000), usage=[used(1, 500)])
    assert isinstance(placed(a_demand(init(a_request(memory=600))), busy), NoFit)


def test_a_pod_without_requests_fits_anywhere() -> None:
    assert placed(a_demand(), ONE) == Fit((), 0.0)
    assert positions(placed(a_demand(app(), app()), a_state(usage=[used(10)]))) == [[], []]


def test_one_container_may_ask_several_vendors() -> None:
    both = a_state(a_device(), a_device(vendor="Beta"))
    demand = a_demand(app(a_request(), a_request(vendor="Beta")))
    verdict = placed(demand, both, acme.SPEC, BETA)
    assert positions(verdict) == [[0, 1]]
    missing = refusal(placed(demand, TWO, acme.SPEC, BETA))
    assert (missing.vendor, missing.devices) == ("Beta", 0)
    assert missing.words == Reason.TOO_FEW_CARDS


def test_too_few_cards_is_said_without_looking_at_them() -> None:
    found = refusal(placed(a_demand(a_request(count=3)), TWO))
    assert found == NoFit(((Reason.TOO_FEW_CARDS, 1),), 2, 0, ACME, Reason.TOO_FEW_CARDS)


def test_a_vendor_may_have_words_of_its_own_for_too_few_cards() -> None:
    spec = acme_variants.fitting(
        message_when_too_few=True, message=lambda shortfall, ask: f"only {len(shortfall.devices)}"
    )
    found = refusal(placed(a_demand(a_request(count=3)), TWO, spec))
    assert (found.words, dict(found.reasons)) == ("only 2", {Reason.TOO_FEW_CARDS: 1})


def test_id_lists_arrive_as_a_mask_of_positions() -> None:
    demand = a_demand(a_request(selector=DeviceSelector(use_ids=frozenset({DeviceId("a")}))))
    assert positions(placed(demand, TWO, mask={ACME: frozenset({0})})) == [[0]]
    found = refusal(placed(demand, TWO, mask={ACME: frozenset()}))
    assert dict(found.reasons) == {Reason.ID: 2}
    assert positions(placed(demand, TWO, mask={VendorName("Beta"): frozenset()})) == [[1]]


class TestPartitionedCards:
    """A card in pieces may serve one request several times, so fewer cards than asked may do."""

    profile = Profile("half", MiB(500), CoreShare(50), 1, (SlicePlacement(0, 1), SlicePlacement(1, 1)))
    card = a_device(memory=4_000, mode="mig", profiles=(profile,))

    @staticmethod
    def spec() -> VendorSpec:
        def share_of(candidate: Candidate, ask: ContainerRequest) -> DeviceShare:
            place = SlicePlacement(len(candidate.used.marks), 1)
            return DeviceShare(candidate.position, MiB(500), CoreShare(50), Instance("half", place))

        def place_left(candidate: Candidate, ask: ContainerRequest) -> Reason | None:
            return Reason.PARTITION if len(candidate.used.marks) > 1 else None

        return acme_variants.fitting(partitions=True, share_of=share_of, late_checks=(place_left,))

    def test_one_card_serves_a_request_for_two(self) -> None:
        verdict = placed(a_demand(a_request(count=2)), a_state(self.card), self.spec())
        assert positions(verdict) == [[0, 0]]

    def test_marks_of_earlier_containers_are_seen_by_later_ones(self) -> None:
        verdict = placed(a_demand(a_request(), a_request()), a_state(self.card), self.spec())
        assert isinstance(verdict, Fit)
        marks = [share.mark for container in verdict.containers for share in container.shares()]
        assert marks == [Instance("half", SlicePlacement(0, 1)), Instance("half", SlicePlacement(1, 1))]
        assert isinstance(placed(a_demand(a_request(count=3)), a_state(self.card), self.spec()), NoFit)

    def test_a_mode_that_the_pod_refuses_cannot_serve_twice(self) -> None:
        spec = self.spec()
        accepted = a_request(count=2, selector=DeviceSelector(modes="mig"))
        assert positions(placed(a_demand(accepted), a_state(self.card), spec)) == [[0, 0]]
        refused = a_request(count=2, selector=DeviceSelector(modes="hami-core"))
        assert dict(refusal(placed(a_demand(refused), a_state(self.card), spec)).reasons) == {Reason.TOO_FEW_CARDS: 1}

    def test_a_whole_card_never_serves_twice(self) -> None:
        found = refusal(placed(a_demand(a_request(count=2)), a_state(a_device()), self.spec()))
        assert found.words == Reason.TOO_FEW_CARDS


class TestQuota:
    """What a namespace may still take counts for the pod as a whole, at its peak."""

    @staticmethod
    def refused(demand: DeviceDemand, memory: int | None = None, cores: int | None = None) -> bool:
        room = Headroom(None if memory is None else MiB(memory), None if cores is None else CoreShare(cores))
        verdict = placed(demand, TWO, headroom={ACME: room})
        if isinstance(verdict, NoFit):
            assert Reason.QUOTA in dict(verdict.reasons)
        return isinstance(verdict, NoFit)

    def test_containers_of_the_pod_add_up(self) -> None:
        demand = a_demand(a_request(memory=600), a_request(memory=500))
        assert not self.refused(demand, 1_100)
        assert self.refused(demand, 1_099)

    def test_cards_of_one_request_add_up(self) -> None:
        assert not self.refused(a_demand(a_request(count=2, cores=30)), cores=60)
        assert self.refused(a_demand(a_request(count=2, cores=30)), cores=59)

    def test_requests_of_one_container_add_up(self) -> None:
        assert self.refused(a_demand(app(a_request(memory=600), a_request(memory=600))), 1_100)

    def test_init_containers_count_at_their_peak(self) -> None:
        demand = a_demand(init(a_request(memory=900)), init(a_request(memory=1_000)), a_request(memory=600))
        assert not self.refused(demand, 1_000)

    def test_init_and_application_on_different_cards_add_up(self) -> None:
        lists = a_request(memory=600, selector=DeviceSelector(avoid_ids=frozenset()))
        demand = a_demand(init(lists), a_request(memory=600))
        room = {ACME: Headroom(MiB(1_000), None)}
        # The application goes to the emptier card, which is the one that the init container had.
        assert isinstance(placed(demand, TWO, headroom=room), Fit)

    def test_a_vendor_without_limit_is_free(self) -> None:
        assert not self.refused(a_demand(a_request(memory=10_000)))
        limits = {VendorName("Beta"): Headroom(MiB(0), CoreShare(0))}
        assert isinstance(placed(a_demand(a_request()), TWO, headroom=limits), Fit)


class TestScore:
    """How a node ranks: how full it is, and what vendors say of the placement."""

    busy = a_state(a_device(slots=10, memory=1_000, cores=100), usage=[used(5, 250, 10)])

    def score(self, *specs: VendorSpec, policy: Policy = DEFAULT_POLICY, state: NodeState | None = None) -> float:
        demand = a_demand(a_request(memory=1), app())
        verdict = placed(demand, state or self.busy, *specs, policy=policy)
        assert isinstance(verdict, Fit)
        return verdict.score

    def test_it_is_how_full_the_node_was(self) -> None:
        assert self.score() == 10 * (0.5 + 0.25 + 0.1)

    def test_vendors_add_to_it(self) -> None:
        assert self.score(acme_variants.scoring(score_node=lambda scoring: 3.0)) == 11.5

    def test_a_vendor_may_score_alone(self) -> None:
        assert self.score(acme_variants.scoring(score_node=lambda scoring: 3.0, is_whole=True)) == 3.0

    def test_a_neutral_score_ranks_nodes_alike_under_either_policy(self) -> None:
        spec = acme_variants.scoring(score_node=lambda scoring: 1.0, is_neutral=True, is_whole=True)
        assert self.score(spec) == NEUTRAL_WEIGHT
        assert self.score(spec, policy=replace(DEFAULT_POLICY, node=NodePolicy.SPREAD)) == -NEUTRAL_WEIGHT

    def test_a_vendor_sees_its_own_requests_and_shares_only(self) -> None:
        seen: list[Scoring] = []

        def score_node(scoring: Scoring) -> float:
            seen.append(scoring)
            return 0.0

        request, other = a_request(count=2), a_request(vendor="Beta")
        state = a_state(a_device(), a_device(), a_device(vendor="Beta"))
        demand = a_demand(app(request, other), app(other))
        assert isinstance(
            placed(demand, state, acme_variants.scoring(score_node=score_node), BETA),
            Fit,
        )
        (scoring,) = seen
        assert scoring.requests == (request,)
        assert [[share.position for share in shares] for shares in scoring.containers] == [[1, 0], []]
        assert scoring.state is state


def test_later_containers_try_devices_in_the_order_that_earlier_ones_left() -> None:
    """Among equals the arrangement decides, and sorting for one container arranges them for the next."""
    third = a_state(a_device(slots=0), a_device(slots=0), a_device(slots=0))
    spec = acme_variants.fitting(share_of=lambda candidate, ask: DeviceShare(candidate.position, MiB(0), CoreShare(0)))
    roomy = a_state(*(replace(device, slots=9) for device in third.shape.devices))
    one = a_request(memory=Percent(0))
    assert positions(placed(a_demand(one, one, one), roomy, spec)) == [[2], [1], [0]]


def test_only_a_pod_with_several_requests_may_lose_its_place_when_another_pod_leaves() -> None:
    """Containers are served one after another, each where the policy likes it best, as HAMi serves them.

    Here the large card is kept for the second container as long as a pod uses the small one. A request by itself meets
    the same checks on every card, and none of them gets stricter when a share is taken away; that law is held against
    random histories.
    """
    small, large = (a_device(model="Acme One", memory=memory) for memory in (12_000, 16_000))
    pair = a_demand(a_request(memory=8_000), a_request(memory=14_000))
    binpack = replace(DEFAULT_POLICY, order=device_order("binpack", one_numa=False))
    shared, idle = a_state(small, large, usage=[used(1, 1_000), used(0)]), a_state(small, large)
    assert isinstance(placed(pair, shared, policy=binpack), Fit)
    assert isinstance(placed(pair, idle, policy=binpack), NoFit)
    for memory in (8_000, 14_000):
        assert isinstance(placed(a_demand(a_request(memory=memory)), idle, policy=binpack), Fit)


loads = st.lists(st.tuples(st.integers(0, 10), st.integers(0, 16_384), st.integers(0, 100)), min_size=2, max_size=6)
pods = st.lists(
    st.builds(
        lambda kind, count, memory, cores: ContainerDemand(kind, (a_request(count=count, memory=memory, cores=cores),)),
        st.sampled_from(ContainerKind),
        st.integers(1, 3),
        st.integers(0, 9_000),
        st.integers(0, 100),
    ),
    min_size=1,
    max_size=4,
)


@given(loads, pods)
def test_a_placement_never_exceeds_a_device_in_any_phase(
    load: list[tuple[int, int, int]], containers: list[ContainerDemand]
) -> None:
    state = a_state(*(a_device(index=at) for at in range(len(load))), usage=[used(*each) for each in load])
    verdict = placed(a_demand(*containers), state)
    if isinstance(verdict, NoFit):
        return
    running = list(state.usage)
    for container, given_ in zip(containers, verdict.containers, strict=True):
        phase = list(running) if container.kind is INIT else running
        for share in given_.shares():
            phase[share.position] = phase[share.position].plus(share.memory, share.cores)
        for device, usage in zip(state.shape.devices, phase, strict=True):
            if usage not in state.usage:
                assert usage.slots <= device.slots
                assert usage.memory <= device.memory
                assert usage.cores <= device.cores


def test_a_node_may_decide_how_many_devices_an_amount_means() -> None:
    def by_cores(request: DeviceRequest, shape: NodeShape) -> DeviceRequest:
        cores = shape.devices[0].cores
        if request.cores <= cores:
            return request
        return replace(request, count=request.cores // cores, cores=cores)

    spec = replace(
        acme.SPEC,
        requests=replace(acme.SPEC.requests, on_node=by_cores),
        fitting=replace(acme.SPEC.fitting, clamps_cores=False),
    )
    demand = a_demand(a_request(count=1, memory=0, cores=200))
    assert positions(placed(demand, a_state(*(a_device(index=at) for at in range(3))), spec)) == [[2, 1]]
    assert positions(placed(demand, a_state(a_device(cores=200), a_device(cores=200, index=1)), spec)) == [[1]]
    assert refusal(placed(demand, a_state(a_device()), spec)).words == Reason.TOO_FEW_CARDS
