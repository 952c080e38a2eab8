"""Shares in words."""

from __future__ import annotations

import pytest

from hami_plugins.model.devices import CoreMask, GroupMember, Instance, Mark, SlicePlacement, Tenant, Unplaced
from hami_plugins.model.requests import ContainerKind
from hami_plugins.model.units import MiB
from hami_plugins.plan.slices import (
    PlannedSlice,
    cards_words,
    memory_words,
    partition_words,
    planned_slices,
    runs,
    shares_words,
    slices_of,
)
from tests.builders import a_device, a_node, a_share, allocated
from tests.unit.plan.plans import a_plan, asking


def shares(*given: object, cards: int = 4) -> tuple[PlannedSlice, ...]:
    node = a_node("n", *(a_device(index=at) for at in range(cards)))
    return slices_of([allocated(*given)], ["main"], node)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("mark", "words"),
    [
        pytest.param(None, "", id="plain"),
        pytest.param(Instance("1g.10gb", SlicePlacement(4, 1)), "1g.10gb@4", id="instance"),
        pytest.param(CoreMask(0b1101), "cores 0,2-3", id="cores"),
        pytest.param(Tenant("online", "fixed"), "online fixed", id="tenant"),
        pytest.param(Tenant("", "fixed"), "fixed", id="tenant without class"),
        pytest.param(Unplaced("no annotation"), "partition unknown: no annotation", id="unplaced"),
        pytest.param(GroupMember("g"), "", id="group"),
    ],
)
def test_marks_are_told_in_few_words(mark: Mark | None, words: str) -> None:
    assert partition_words(mark) == words


@pytest.mark.parametrize(
    ("numbers", "words"), [((), ""), ((3,), "3"), ((0, 1, 2, 3), "0-3"), ((7, 1, 0, 7, 4), "0-1,4,7")]
)
def test_runs_of_numbers_are_joined(numbers: tuple[int, ...], words: str) -> None:
    assert runs(numbers) == words


def test_cards_are_named_by_model_and_index() -> None:
    assert cards_words(shares(a_share("card-2"), a_share("card-0"), a_share("card-1"))) == "Acme #0-2"


def test_a_card_that_the_node_does_not_have_goes_by_its_id() -> None:
    found = shares(a_share("gone"), a_share("card-0"))
    assert cards_words(found) == "Acme #0, gone"
    assert found[0].model == "Acme"
    assert found[0].index is None


def test_equal_shares_are_counted() -> None:
    words = shares_words(shares(a_share("card-0", 2048, 30), a_share("card-1", 2048, 30), a_share("card-2", 1000)))
    assert words == "2 x 2 GiB, 30 %; 1000 MiB"


def test_init_containers_do_not_add_up_with_the_others() -> None:
    node = a_node("n", *(a_device(index=at) for at in range(2)))
    early = [allocated(a_share("card-0", 7168), kind=ContainerKind.INIT) for _ in range(3)]
    assert shares_words(slices_of([*early, allocated(a_share("card-0", 4096))], [], node)) == "4 GiB (init: 3 x 7 GiB)"
    assert shares_words(slices_of(early, [], node)) == "init: 3 x 7 GiB"


def test_one_core_is_one_core() -> None:
    assert partition_words(CoreMask(0b1)) == "core 0"
    assert partition_words(CoreMask(0b1110)) == "cores 1-3"


def test_a_share_of_everything_is_the_whole_card() -> None:
    assert shares_words(shares(a_share("card-0", 16_384, 100))) == "whole card (16 GiB)"


def test_a_partition_is_never_the_whole_card() -> None:
    share = a_share("card-0", 16_384, 100, Instance("7g", SlicePlacement(0, 8)))
    assert shares_words(shares(share)) == "16 GiB, 100 %, 7g@0"


def test_cores_that_are_no_percentage_are_told_with_their_total() -> None:
    node = a_node("n", a_device(cores=16))
    assert shares_words(slices_of([allocated(a_share("card-0", 1000, 4))], [], node)) == "1000 MiB, 4 of 16 cores"


def test_a_share_without_amounts_is_still_a_share() -> None:
    assert shares_words(shares(a_share("card-0", 0))) == "a share"


@pytest.mark.parametrize(("mib", "words"), [(0, "0 MiB"), (1000, "1000 MiB"), (1024, "1 GiB"), (1536, "1536 MiB")])
def test_memory_is_exact(mib: int, words: str) -> None:
    assert memory_words(MiB(mib)) == words


def test_a_refused_pod_has_no_slices_and_a_placed_one_has_its_containers() -> None:
    plan = a_plan(asking(1024), asking(100_000, name="big"))
    (slice_,) = planned_slices(plan.pods[0])
    assert (slice_.container, slice_.at, slice_.device) == ("main", 0, "card-0")
    assert planned_slices(plan.pods[1]) == ()
