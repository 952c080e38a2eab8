"""Moore Threads GPUs."""

import pytest

from hami_plugins.engine.demand import request_of
from hami_plugins.errors import AdmissionDeniedError, WireError
from hami_plugins.model.requests import Absolute, ContainerKind, Percent
from hami_plugins.model.units import MiB
from hami_plugins.vendors.mthreads import SPEC
from tests.builders import a_container, a_node_object, a_pod
from tests.unit.vendors.placing import NOW_NS, holder, place

COUNT, MEMORY, CORES = SPEC.resources.count, SPEC.resources.memory, SPEC.resources.cores
NODE = a_node_object("n", capacity={COUNT: 200, CORES: 32, MEMORY: 192})
LIST = SPEC.keys.allocated


def admitted(limits: dict[str, int | str], requests: dict[str, int | str] | None = None) -> dict[tuple[str, str], str]:
    assert SPEC.admit is not None
    container = a_container(limits, requests=requests)
    answer = SPEC.admit(SPEC, container, a_pod(container))
    assert answer.claimed
    return {(change.kind, change.key): change.value for change in answer.changes}


def test_a_node_without_cores_has_no_cards() -> None:
    assert SPEC.inventory(SPEC, a_node_object(capacity={MEMORY: 10})).devices == ()


def test_a_card_is_sixteen_cores_and_its_part_of_the_memory() -> None:
    found = SPEC.inventory(SPEC, NODE)
    assert [(device.cores, device.memory, device.slots) for device in found.devices] == [(16, 49152, 100)] * 2
    assert list(found.ids) == ["n-mthreads-0", "n-mthreads-1"]


def test_a_capacity_that_no_machine_has_is_a_problem() -> None:
    with pytest.raises(WireError):
        SPEC.inventory(SPEC, a_node_object(capacity={CORES: 1, MEMORY: 2**30}))


def test_several_cards_are_whole_cards_whatever_was_said() -> None:
    assert admitted({COUNT: 2, MEMORY: 2, CORES: 1}) == {
        ("limit", CORES): "32",
        ("limit", MEMORY): "192",
        ("annotation", "mthreads.com/request-gpu-num"): "2",
    }


def test_one_card_without_memory_is_a_whole_card() -> None:
    assert admitted({}, {COUNT: 1}) == {("limit", CORES): "16", ("limit", MEMORY): "96"}


def test_one_card_with_a_legal_slice_stays_as_it_is() -> None:
    assert admitted({COUNT: 1, MEMORY: 8}) == {}


@pytest.mark.parametrize("memory", [1, 3, 128, "1500m"])
def test_an_illegal_slice_is_refused(memory: int | str) -> None:
    with pytest.raises(AdmissionDeniedError, match=r"valid values are \[2, 4, 8, 16, 32, 64, 96\]"):
        admitted({COUNT: 1, MEMORY: memory})


def test_no_cards_at_all_are_refused() -> None:
    with pytest.raises(AdmissionDeniedError, match="must be greater than 0"):
        admitted({COUNT: 0})


def test_a_container_without_cards_is_left_alone() -> None:
    assert SPEC.admit is not None
    assert not SPEC.admit(SPEC, a_container({"cpu": 1}), a_pod()).claimed


def test_totals_are_shared_among_the_cards() -> None:
    container = a_container({COUNT: 2, MEMORY: 96, CORES: 16})
    found = request_of(SPEC, container, a_pod(container))
    assert found is not None
    assert (found.memory, found.cores) == (Absolute(MiB(24576)), 8)


def test_the_whole_memory_is_meant_where_none_is_named() -> None:
    container = a_container({COUNT: 1})
    found = request_of(SPEC, container, a_pod(container))
    assert found is not None
    assert (found.memory, found.cores) == (Percent(100), 0)


def test_a_container_that_names_nothing_asks_for_nothing() -> None:
    assert request_of(SPEC, a_container(), a_pod()) is None


def test_containers_of_a_pod_share_one_card() -> None:
    pod = a_pod(
        a_container({COUNT: 1, MEMORY: 64, CORES: 8}, name="a"), a_container({COUNT: 1, MEMORY: 32, CORES: 8}, name="b")
    )
    written = place(SPEC, NODE, pod)
    assert isinstance(written, dict)
    assert written[LIST] == "n-mthreads-1,Mthreads,32768,8:;n-mthreads-1,Mthreads,16384,8:;"
    assert SPEC.keys.to_allocate not in written


def test_a_pod_whose_containers_cannot_share_a_card_has_no_place() -> None:
    pod = a_pod(a_container({COUNT: 1}, name="a"), a_container({COUNT: 1}, name="b"))
    assert place(SPEC, NODE, pod) == "1/2 CardInsufficientMemory, 1/2 CardNotFoundCustomFilterRule"


def test_an_init_container_may_have_another_card() -> None:
    pod = a_pod(
        a_container({COUNT: 1}, name="a", kind=ContainerKind.INIT), a_container({COUNT: 1, MEMORY: 2}, name="b")
    )
    written = place(SPEC, NODE, pod)
    assert isinstance(written, dict)
    assert written[LIST].count("n-mthreads") == 2


@pytest.mark.parametrize("kind", [ContainerKind.APP, ContainerKind.INIT])
def test_all_sixteen_cores_are_had_beside_containers_without_cores_as_hami_compares_with_100(
    kind: ContainerKind,
) -> None:
    node = a_node_object("n", capacity={CORES: 16, MEMORY: 96})
    pod = a_pod(a_container({COUNT: 1, MEMORY: 2, CORES: 16}, kind=kind), a_container(name="idle"))
    written = place(SPEC, node, pod, [holder(SPEC, "n-mthreads-0,Mthreads,1024,0:;")])
    assert isinstance(written, dict)
    assert written[LIST] == "n-mthreads-0,Mthreads,1024,16:;;"
    with_a_core = [holder(SPEC, "n-mthreads-0,Mthreads,1024,1:;")]
    assert place(SPEC, node, pod, with_a_core) == "1/1 CardInsufficientCore"


def test_the_plugin_learns_the_cards_of_the_last_container() -> None:
    pod = a_pod(a_container({COUNT: 2}, name="main"), a_container(name="idle"))
    written = place(SPEC, NODE, pod)
    assert isinstance(written, dict)
    assert written["mthreads.com/gpu-index"] == "1,0"
    assert written["mthreads.com/predicate-node"] == "n"
    assert written["mthreads.com/predicate-time"] == str(NOW_NS)
