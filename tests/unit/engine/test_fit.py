"""One container's request on candidates in the order in which they are tried."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from hami_plugins.engine.fit import Fitter, RequestRefusal, spelled
from hami_plugins.model.devices import Device, DeviceShare, DeviceUsage, Instance, SlicePlacement
from hami_plugins.model.nodes import NodeShape
from hami_plugins.model.policy import DEFAULT_POLICY, Policy
from hami_plugins.model.requests import DeviceRequest
from hami_plugins.model.units import CoreShare, MiB
from hami_plugins.model.vendor import Candidate, ContainerRequest, Shortfall, Unselectable, VendorSpec
from hami_plugins.model.verdicts import Reason
from tests import acme, acme_variants
from tests.builders import a_device, a_request, used

Card = tuple[Device, DeviceUsage]


def idle(count: int, **facts: int) -> list[Card]:
    return [(a_device(index=at, **facts), DeviceUsage()) for at in range(count)]  # type: ignore[arg-type]


def fitted(
    request: DeviceRequest,
    cards: Sequence[Card],
    *,
    spec: VendorSpec = acme.SPEC,
    policy: Policy = DEFAULT_POLICY,
    most_memory: int | None = None,
) -> tuple[DeviceShare, ...] | RequestRefusal:
    fitter = Fitter.of(spec, request, policy)
    ask = ContainerRequest(
        fitter.request,
        policy,
        NodeShape(tuple(device for device, _ in cards)),
        (),
        spec.fitting.cores_of,
        spec.fitting.memory_of,
    )
    candidates = [Candidate(at, device, usage) for at, (device, usage) in enumerate(cards)]
    if most_memory is None:
        return fitter.fit(candidates, ask)
    return fitter.fit(candidates, ask, lambda shares: sum(each.memory for each in shares) <= most_memory)


def positions(found: tuple[DeviceShare, ...] | RequestRefusal) -> list[int]:
    assert not isinstance(found, RequestRefusal), found
    return [share.position for share in found]


def test_the_first_candidates_that_pass_every_check_are_taken() -> None:
    cards = [*idle(1), (a_device(), used(10)), *idle(3)]
    found = fitted(a_request(count=2, memory=500, cores=7), cards)
    assert found == (DeviceShare(0, MiB(500), CoreShare(7)), DeviceShare(2, MiB(500), CoreShare(7)))


def test_cores_over_a_hundred_percent_are_booked_as_a_hundred() -> None:
    assert fitted(a_request(memory=1, cores=130), idle(1)) == (DeviceShare(0, MiB(1), CoreShare(100)),)


def test_each_candidate_counts_under_its_first_objection() -> None:
    cards = [
        (a_device(healthy=False), used(10)),
        (a_device(), used(10)),
        (a_device(), used(1, 16_000)),
        (a_device(), used(1, 16_000, 100)),
        (a_device(), used(1, 0, 100)),
        *idle(1),
    ]
    refusal = fitted(a_request(count=2, memory=1_000, cores=50), cards)
    assert refusal == RequestRefusal(
        (
            (Reason.TOO_FEW, 1),
            (Reason.CORES, 1),
            (Reason.MEMORY, 2),
            (Reason.HEALTH, 1),
            (Reason.SLOTS, 1),
        ),
        6,
        "1/6 AllocatedCardsInsufficientRequest, 1/6 CardInsufficientCore, 1/6 CardNotHealth, "
        "1/6 CardTimeSlicingExhausted, 2/6 CardInsufficientMemory",
    )


def test_nothing_at_all_is_too_few_of_nothing() -> None:
    assert fitted(a_request(), []) == RequestRefusal((), 0, "")


def test_reasons_are_spelled_sorted_as_texts() -> None:
    tally = {Reason.MEMORY: 2, Reason.ID: 10}
    assert spelled(tally, 12) == "10/12 CardUuidMismatch, 2/12 CardInsufficientMemory"


class TestOneNuma:
    """NUMA binding starts over at every change of NUMA node."""

    binding = acme_variants.fitting(binds_numa=True)
    policy = replace(DEFAULT_POLICY, one_numa=True)

    def found(self, count: int, *numas: int) -> tuple[DeviceShare, ...] | RequestRefusal:
        cards = [(a_device(numa=numa), DeviceUsage()) for numa in numas]
        return fitted(a_request(count=count), cards, spec=self.binding, policy=self.policy)

    def test_devices_of_one_node_are_taken(self) -> None:
        assert positions(self.found(2, 0, 1, 1)) == [1, 2]

    def test_devices_that_were_given_up_are_counted(self) -> None:
        refusal = self.found(3, 0, 0, 1)
        assert isinstance(refusal, RequestRefusal)
        assert dict(refusal.reasons) == {Reason.NUMA: 2, Reason.TOO_FEW: 1}

    def test_they_are_counted_every_time(self) -> None:
        refusal = self.found(2, 0, 1, 0, 1)
        assert isinstance(refusal, RequestRefusal)
        assert dict(refusal.reasons) == {Reason.NUMA: 3, Reason.TOO_FEW: 1}

    def test_the_words_leave_them_out_where_cards_are_collected_before_the_choice(self) -> None:
        collecting = replace(
            self.binding, fitting=replace(self.binding.fitting, select=lambda candidates, ask: candidates)
        )
        cards = [(a_device(numa=numa), DeviceUsage()) for numa in (0, 1)]
        refusal = fitted(a_request(count=2), cards, spec=collecting, policy=self.policy)
        assert isinstance(refusal, RequestRefusal)
        assert dict(refusal.reasons) == {Reason.NUMA: 1, Reason.TOO_FEW: 1}
        assert refusal.words == "1/2 AllocatedCardsInsufficientRequest"

    def test_a_vendor_that_does_not_bind_takes_any(self) -> None:
        cards = [(a_device(numa=numa), DeviceUsage()) for numa in (0, 1)]
        assert positions(fitted(a_request(count=2), cards, policy=self.policy)) == [0, 1]


class TestQuota:
    """The namespace's quota is one more check: after sharing, before memory."""

    def test_a_card_that_would_overdraw_it_is_passed_over(self) -> None:
        assert positions(fitted(a_request(count=2, memory=1_000), idle(3), most_memory=2_000)) == [0, 1]
        refusal = fitted(a_request(count=3, memory=1_000), idle(3), most_memory=2_000)
        assert isinstance(refusal, RequestRefusal)
        assert dict(refusal.reasons) == {Reason.TOO_FEW: 2, Reason.QUOTA: 1}

    def test_slots_come_before_it_and_memory_after(self) -> None:
        cards = [(a_device(), used(10)), (a_device(), used(1, 16_384))]
        refusal = fitted(a_request(memory=1_000), cards, most_memory=0)
        assert isinstance(refusal, RequestRefusal)
        assert dict(refusal.reasons) == {Reason.SLOTS: 1, Reason.QUOTA: 1}


def reversed_choice(candidates: Sequence[Candidate], ask: ContainerRequest) -> Sequence[Candidate]:
    return candidates[::-1][: ask.request.count]


class TestSelect:
    """A vendor's choice among all that pass."""

    choosing = acme_variants.fitting(select=reversed_choice)

    def test_it_sees_every_candidate_that_passed(self) -> None:
        assert positions(fitted(a_request(count=2), idle(4), spec=self.choosing)) == [3, 2]

    def test_it_is_asked_only_under_topology_awareness_if_it_says_so(self) -> None:
        near = replace(self.choosing, fitting=replace(self.choosing.fitting, select_when_near=True))
        assert positions(fitted(a_request(count=2), idle(4), spec=near)) == [0, 1]
        aware = replace(DEFAULT_POLICY, near=True)
        assert positions(fitted(a_request(count=2), idle(4), spec=near, policy=aware)) == [3, 2]

    def test_too_few_candidates_never_reach_it(self) -> None:
        refusal = fitted(a_request(count=3), idle(2), spec=self.choosing)
        assert isinstance(refusal, RequestRefusal)
        assert dict(refusal.reasons) == {Reason.TOO_FEW: 2}

    def test_fewer_than_asked_is_a_refusal(self) -> None:
        shy = acme_variants.fitting(select=lambda candidates, ask: candidates[:1])
        refusal = fitted(a_request(count=2), idle(3), spec=shy)
        assert isinstance(refusal, RequestRefusal)
        assert dict(refusal.reasons) == {Reason.TOO_FEW: 3}

    def test_its_refusal_has_a_reason(self) -> None:
        strict = acme_variants.fitting(select=lambda candidates, ask: Unselectable(Reason.TOPOLOGY, len(candidates)))
        refusal = fitted(a_request(count=2), idle(3), spec=strict)
        assert refusal == RequestRefusal(((Reason.TOPOLOGY, 3),), 3, "3/3 NoLinkedSet")


class TestPartitions:
    """A partitioned card may serve a request several times, as long as it has places."""

    @staticmethod
    def spec(places: int) -> VendorSpec:
        def share_of(candidate: Candidate, ask: ContainerRequest) -> DeviceShare:
            place = SlicePlacement(len(candidate.used.marks), 1)
            return DeviceShare(candidate.position, MiB(1), CoreShare(1), Instance("slice", place))

        def place_left(candidate: Candidate, ask: ContainerRequest) -> Reason | None:
            return Reason.PARTITION if len(candidate.used.marks) >= places else None

        return acme_variants.fitting(partitions=True, share_of=share_of, late_checks=(place_left,))

    def test_one_card_serves_them_all(self) -> None:
        found = fitted(a_request(count=3), idle(2), spec=self.spec(4))
        assert positions(found) == [0, 0, 0]

    def test_the_next_card_serves_the_rest(self) -> None:
        assert positions(fitted(a_request(count=3), idle(2), spec=self.spec(2))) == [0, 0, 1]

    def test_a_full_card_counts_once_under_its_last_objection(self) -> None:
        refusal = fitted(a_request(count=5), idle(2), spec=self.spec(2))
        assert isinstance(refusal, RequestRefusal)
        assert dict(refusal.reasons) == {Reason.PARTITION: 2, Reason.TOO_FEW: 4}

    def test_a_card_never_serves_more_often_than_it_has_slots(self) -> None:
        cards = [(a_device(slots=3), used(1)), (a_device(slots=3), used(2))]
        assert positions(fitted(a_request(count=3), cards, spec=self.spec(9))) == [0, 0, 1]
        refusal = fitted(a_request(count=4), cards, spec=self.spec(9))
        assert isinstance(refusal, RequestRefusal)
        assert dict(refusal.reasons) == {Reason.SLOTS: 2, Reason.TOO_FEW: 3}

    def test_a_share_without_a_mark_takes_its_card_once(self) -> None:
        unmarked = acme_variants.fitting(partitions=True)
        assert positions(fitted(a_request(count=2), idle(2), spec=unmarked)) == [0, 1]


def test_a_vendors_words_replace_the_usual_ones() -> None:
    def spell(shortfall: Shortfall, ask: ContainerRequest) -> str | None:
        return None if shortfall.passed else f"none of {len(shortfall.devices)} for {ask.request.count}"

    spec = acme_variants.fitting(message=spell)
    silent = fitted(a_request(), [(a_device(), used(10))], spec=spec)
    assert isinstance(silent, RequestRefusal)
    assert silent.words == "none of 1 for 1"
    usual = fitted(a_request(count=2), idle(1), spec=spec)
    assert isinstance(usual, RequestRefusal)
    assert usual.words == "1/1 AllocatedCardsInsufficientRequest"


@pytest.mark.parametrize("hook", ["cores_of", "memory_of"])
def test_what_a_share_holds_is_what_the_checks_compared(hook: str) -> None:
    spec = acme_variants.fitting(**{hook: lambda device, request: 42})
    (share,) = fitted(a_request(memory=1, cores=1), idle(1), spec=spec)  # type: ignore[misc]
    assert (share.memory, share.cores) == ((1, 42) if hook == "cores_of" else (42, 1))
