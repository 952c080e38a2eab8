"""Filter as a process: caches, simulations, init containers that end, and MIG cards with unknown places.

Where upstream keeps a cache and takes things back, a decision here is a value and takes effect when it is applied.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from hami_plugins.engine.apply import assigned, removed
from hami_plugins.engine.decide import Decider
from hami_plugins.engine.intake import PodInfo, Rules, take_in
from hami_plugins.inputs.list_reader import snapshot_of
from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.model.decisions import UNREGISTERED, Decision, Placed, Refused
from hami_plugins.model.devices import Device, DeviceUsage, SlicePlacement
from hami_plugins.model.units import CoreShare, DeviceId, MiB
from hami_plugins.vendors import builtin, nvidia
from hami_plugins.wire import mig_allocations, node_devices, objects
from hami_plugins.wire.mig_allocations import MigAllocation
from hami_plugins.wire.node_devices import RegisteredDevice
from tests.golden import cases
from tests.machines import H100_PROFILES

DEVIATIONS = {
    "scenario-filter-n24": "a snapshot has the usage of every node that it has, so there is no node of unknown usage",
    "scenario-filter-n28": "HAMi forgets a pod whose assignment it cannot read; we keep it without devices, and say so",
    "scenario-filter-s35-03": "a place on a card that the node does not have is kept and told; it says nothing of the "
    "others (HAMi then uses no MIG card of the node at all)",
}

REGISTRY = builtin()
LISTS: Final = nvidia.SPEC.keys.allocated
CARD: Final = "GPU-0"
Raw = dict[str, Any]


@cases.each("hami-core/scenarios-filter.yaml")
def test_filter_does_what_its_scenario_says(case: cases.Case) -> None:
    _SCENARIOS[case.id](case.expect)


def node(name: str = "n0", *, mode: str = "hami-core", cards: int = 1, registered: bool = True) -> Raw:
    register = node_devices.encode_json(
        RegisteredDevice(
            id=DeviceId(f"GPU-{at}" if name == "n0" else f"{name}-{at}"),
            index=at,
            slots=7,
            memory=MiB(81_559),
            cores=CoreShare(100),
            model="NVIDIA H100",
            mode=mode,
            profiles=H100_PROFILES if mode == "mig" else (),
            healthy=True,
        )
        for at in range(cards)
    )
    annotations = {nvidia.SPEC.keys.register: register} if registered else {}
    return {"kind": "Node", "metadata": {"name": name, "annotations": annotations}}


def pod(*, allocation: str = f"{CARD},NVIDIA,9856,13:;", places: str | None = None, **status: Any) -> Raw:
    """A running pod that holds (a part of) the first card."""
    annotations = {LISTS: allocation} | ({} if places is None else {nvidia.MIG_KEY: places})
    containers = [{"name": f"c{at}"} for at in range(allocation.count(";"))]
    init = containers[:-1]
    return {
        "kind": "Pod",
        "metadata": {"name": "running", "namespace": "team", "uid": "u", "annotations": annotations},
        "spec": {"nodeName": "n0", "initContainers": init, "containers": containers[-1:]},
        "status": {"phase": "Running", **status},
    }


def places_at(*starts: int, gpu: str = CARD) -> str:
    """The annotation of reserved places of one slice each."""
    return mig_allocations.encode(_place(gpu, start, at) for at, start in enumerate(starts))


def _place(gpu: str, start: int, at: int) -> MigAllocation:
    return MigAllocation(0, at, DeviceId(gpu), "1g.10gb", SlicePlacement(start, 1))


def asking(**annotations: str) -> PodInfo:
    """A pod that wants a slice of 9,000 MiB."""
    limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "9000"}
    raw = {
        "metadata": {"name": "new", "namespace": "team", "uid": "new", "annotations": annotations},
        "spec": {"containers": [{"name": "main", "resources": {"limits": limits}}]},
    }
    return take_in(objects.pod(raw), REGISTRY, Rules())


def decided(snapshot: ClusterSnapshot, intake: PodInfo | None = None) -> Decision:
    intake = intake or asking()
    return Decider(REGISTRY).decide(snapshot, intake.demand, intake.policy)


def words(snapshot: ClusterSnapshot) -> list[str]:
    decision = decided(snapshot)
    assert isinstance(decision, Refused)
    return [refusal.words for _, refusal in decision.by_node]


def read(*items: Raw) -> ClusterSnapshot:
    return snapshot_of(items, REGISTRY)


def card(snapshot: ClusterSnapshot) -> tuple[Device, DeviceUsage]:
    state = snapshot.nodes[0].state
    return state.shape.devices[0], state.usage[0]


def _both_nodes_are_named(expect: Mapping[str, Any]) -> None:
    full = pod(allocation=f"{CARD},NVIDIA,81559,100:;")
    other = pod(allocation="n1-0,NVIDIA,81559,100:;")
    other["metadata"] |= {"name": "other", "uid": "other"}
    other["spec"]["nodeName"] = "n1"
    decision = decided(read(node(), node("n1"), full, other))
    assert isinstance(decision, Refused)
    assert ([name for name, _ in decision.by_node] == ["n0", "n1"]) is expect["failed_nodes_contains_both"]


def _a_pod_that_comes_again_does_not_compete_with_itself(_: Mapping[str, Any]) -> None:
    snapshot, intake = read(node()), asking()
    first = decided(snapshot, intake)
    assert isinstance(first, Placed)
    reserved = assigned(snapshot, intake.pod, first)
    evicted = removed(reserved, lambda record: record.uid == intake.pod.uid)
    assert decided(evicted, intake) == first


def _a_simulation_leaves_no_trace(_: Mapping[str, Any]) -> None:
    snapshot = read(node(), pod())
    before = (snapshot.nodes, [entry.state for entry in snapshot.nodes])
    decided(snapshot)
    assert (snapshot.nodes, [entry.state for entry in snapshot.nodes]) == before


def _an_unregistered_node_says_so(expect: Mapping[str, Any]) -> None:
    assert words(read(node(registered=False))) == [expect["failed_reason"]]
    assert str(UNREGISTERED) == expect["failed_reason"]


def _a_stale_id_harms_nobody(_: Mapping[str, Any]) -> None:
    snapshot = read(node(), pod(allocation="GPU-gone,NVIDIA,9856,13:;"))
    assert card(snapshot)[1] == DeviceUsage()
    assert isinstance(decided(snapshot), Placed)
    assert "holds GPU-gone" in snapshot.problems[0].what


def _every_node_has_its_usage(_: Mapping[str, Any]) -> None:
    assert all(len(entry.state.usage) == len(entry.ids) for entry in read(node(), node("n1"), pod()).nodes)


def _unreadable_weights_are_an_error(_: Mapping[str, Any]) -> None:
    assert asking(**{"hami.io/device-scoring-weights": "slot=x"}).words.startswith("filter error")


def _unknown_places_close_the_card(_: Mapping[str, Any]) -> None:
    assert words(read(node(mode="mig"), pod())) == ["1/1 CardNotHealth"]


def _leftover_places_are_taken(_: Mapping[str, Any]) -> None:
    decision = decided(read(node(mode="mig"), pod(places=places_at(6, 5, 4))))
    assert isinstance(decision, Placed)
    assert [share.mark.placement.start for share in decision.shares()] == [3]  # type: ignore[union-attr]


def _an_unreadable_assignment_holds_its_whole_card_and_is_told(_: Mapping[str, Any]) -> None:
    """HAMi takes such a pod to hold nothing, and gives its card to the next one."""
    snapshot = read(node(), pod(allocation=f"{CARD},NVIDIA,lots,13:;"))
    (record,) = snapshot.nodes[0].pods
    device, used = card(snapshot)
    assert record.name == "running"
    assert (used.slots, used.memory, used.cores) == (1, device.memory, 100)
    assert LISTS in snapshot.problems[0].what


def _a_terminating_pod_counts(_: Mapping[str, Any]) -> None:
    ending = pod()
    ending["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert card(read(node(), ending))[1].memory == 9856


def _finished_init_containers_are_released(_: Mapping[str, Any]) -> None:
    allocation = f"{CARD},NVIDIA,50000,90:;{CARD},NVIDIA,1000,10:;"
    assert card(read(node(), pod(allocation=allocation)))[1].memory == 50_000
    ended = [{"name": "c0", "state": {"terminated": {"exitCode": 0}}}]
    done = read(node(), pod(allocation=allocation, initContainerStatuses=ended))
    assert (card(done)[1].memory, card(done)[1].cores) == (1000, 10)


def _places_on_a_card_that_is_not_cut_close_it(_: Mapping[str, Any]) -> None:
    assert words(read(node(), pod(places=places_at(0)))) == ["1/1 CardNotHealth"]


def _leftover_places_on_a_card_that_is_not_cut_close_it(_: Mapping[str, Any]) -> None:
    leftover = pod(allocation="GPU-1,NVIDIA,100,1:;", places=places_at(0))
    found = read(node(cards=2), leftover)
    decision = decided(found)
    assert isinstance(decision, Placed)
    assert [share.device for share in decision.shares()] == ["GPU-1"]


def _leftover_places_on_an_unknown_card_are_told(_: Mapping[str, Any]) -> None:
    places = mig_allocations.encode([_place(CARD, 6, 0), _place("GPU-gone", 0, 1)])
    snapshot = read(node(mode="mig"), pod(places=places))
    assert isinstance(decided(snapshot), Placed)
    assert "holds GPU-gone" in snapshot.problems[0].what


def _unreadable_places_are_no_places(_: Mapping[str, Any]) -> None:
    snapshot = read(node(mode="mig"), pod(places="{"))
    assert words(snapshot) == ["1/1 CardNotHealth"]
    assert card(snapshot)[1].memory == 9856
    assert nvidia.MIG_KEY in snapshot.problems[0].what


_SCENARIOS: Final[Mapping[str, Callable[[Mapping[str, Any]], None]]] = {
    "scenario-filter-n20": _both_nodes_are_named,
    "scenario-filter-n21": _a_pod_that_comes_again_does_not_compete_with_itself,
    "scenario-filter-n22-a": _a_simulation_leaves_no_trace,
    "scenario-filter-n22-b": _an_unregistered_node_says_so,
    "scenario-filter-n23": _a_stale_id_harms_nobody,
    "scenario-filter-n24": _every_node_has_its_usage,
    "scenario-filter-n25": _unreadable_weights_are_an_error,
    "scenario-filter-n26": _unknown_places_close_the_card,
    "scenario-filter-n27": _leftover_places_are_taken,
    "scenario-filter-n28": _an_unreadable_assignment_holds_its_whole_card_and_is_told,
    "scenario-filter-n29": _a_terminating_pod_counts,
    "scenario-filter-i11": _finished_init_containers_are_released,
    "scenario-filter-s35-01": _places_on_a_card_that_is_not_cut_close_it,
    "scenario-filter-s35-02": _leftover_places_on_a_card_that_is_not_cut_close_it,
    "scenario-filter-s35-03": _leftover_places_on_an_unknown_card_are_told,
    "scenario-filter-s35-04": _unreadable_places_are_no_places,
}
