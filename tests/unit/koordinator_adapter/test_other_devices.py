"""Network cards and FPGAs together with cards, and wishes that only Koordinator reads."""

from __future__ import annotations

import json

import pytest

from hami_plugins.wire.koordinator import CORE, FPGA, RATIO, RDMA, SHARED
from koordinator_adapter.core.translation.model import Fidelity
from koordinator_adapter.core.translation.vocabulary import HINT, ISOLATION, JOINT, PARTITION
from tests.unit.koordinator_adapter.written import limits_of, moved, pod, translated

SLICE = {"nvidia.com/gpu": 1, "nvidia.com/gpumem-percentage": 50, "nvidia.com/gpucores": 30}
KOORDINATORS = {SHARED: 1, RATIO: 50, CORE: 30}
LABEL = {ISOLATION: "HAMi-core"}


@pytest.mark.parametrize("other", [{RDMA: 1}, {RDMA: 200}, {FPGA: 50}, {"kubernetes.io/rdma": 100}])
def test_network_cards_and_fpgas_stay_beside_what_becomes_koordinators(other: dict[str, int]) -> None:
    becomes = moved(pod({**SLICE, **other}), "koordinator")
    assert dict(limits_of(becomes)) == {**KOORDINATORS, **other}
    assert dict(limits_of(moved(pod({**KOORDINATORS, **other}, labels=LABEL), "koordinator"))) == {
        **KOORDINATORS,
        **other,
    }


@pytest.mark.parametrize("name", ["nvidia.com/hostdev", "nvidia.com/mlnxnics"])
def test_network_cards_of_nvidias_operator_stay_as_they_are(name: str) -> None:
    for target, becomes in (("koordinator", KOORDINATORS), ("hami", SLICE)):
        assert dict(limits_of(moved(pod({**SLICE, name: 1}), target))) == {**becomes, name: 1}


def test_colocated_cpus_of_the_old_name_are_no_cards() -> None:
    batch: dict[str, object] = {"koordinator.sh/batch-cpu": 1000, "koordinator.sh/batch-memory": "1Gi"}
    assert translated(pod(batch), "koordinator").findings == ()
    assert dict(limits_of(moved(pod({**KOORDINATORS, **batch}, labels=LABEL), "koordinator"))) == {
        **KOORDINATORS,
        **batch,
    }
    found = translated(pod({**KOORDINATORS, **batch}, labels=LABEL), "hami")
    assert found.fidelity is Fidelity.REFUSED
    assert found.findings[0].about in batch


@pytest.mark.parametrize("limits", [{RDMA: 100}, {RDMA: 100, "cpu": 1}])
def test_a_network_card_alone_is_left_alone_for_koordinator(limits: dict[str, object]) -> None:
    found = translated(pod(limits), "koordinator")
    assert (found.edits, found.findings) == ((), ())


@pytest.mark.parametrize("target", ["hami", "volcano"])
@pytest.mark.parametrize("limits", [{RDMA: 1}, {RDMA: 1, "cpu": 1}, {**KOORDINATORS, FPGA: 100}, {**SLICE, RDMA: 1}])
def test_nobody_else_gives_out_network_cards_and_fpgas(limits: dict[str, object], target: str) -> None:
    found = translated(pod(limits, labels=LABEL), target)
    assert found.fidelity is Fidelity.REFUSED
    assert found.findings[0].about in {RDMA, FPGA}
    assert not found.edits


@pytest.mark.parametrize("other", [{RDMA: 150}, {FPGA: 201}])
def test_an_amount_that_koordinator_refuses_is_refused_in_its_words(other: dict[str, int]) -> None:
    (name, amount), *_ = other.items()
    (finding,) = translated(pod({**SLICE, **other}), "koordinator").findings
    assert f"invalid resource unit {name}: {amount}" in finding.words
    assert finding.remedy


def test_what_several_containers_ask_for_counts_in_sum() -> None:
    found = translated(pod({**SLICE, RDMA: 60}, {RDMA: 60}), "koordinator")
    assert found.fidelity is Fidelity.REFUSED
    assert "invalid resource unit koordinator.sh/rdma: 120" in found.findings[0].words
    assert found.findings[0].path == ("spec", "containers", 0, "resources", "limits", RDMA)
    both = translated(pod({**SLICE, RDMA: 60}, {"kubernetes.io/rdma": 60}), "koordinator")
    assert both.fidelity is Fidelity.REFUSED
    assert moved(pod({**SLICE, RDMA: 100}, {RDMA: 100}), "koordinator")
    assert moved(pod({**SLICE, RDMA: 60}, {FPGA: 60}), "koordinator")
    starting = pod({**SLICE, RDMA: 60})
    starting["spec"]["initContainers"] = [{"name": "i", "resources": {"limits": {RDMA: 60}}}]
    assert moved(starting, "koordinator")


def test_a_network_card_in_another_container_is_no_second_request_for_cards() -> None:
    becomes = moved(pod(SLICE, {RDMA: 1}), "koordinator")
    assert dict(limits_of(becomes)) == KOORDINATORS
    assert dict(limits_of(becomes, 1)) == {RDMA: 1}


def test_hints_for_other_devices_stay_beside_what_a_pod_says_of_cards() -> None:
    annotations = {"nvidia.com/numa-bind": "true", HINT: '{"rdma":{"allocateStrategy":"ApplyForAll"}}'}
    becomes = moved(pod({**SLICE, RDMA: 1}, annotations=annotations), "koordinator")
    assert json.loads(becomes["metadata"]["annotations"][HINT]) == {
        "rdma": {"allocateStrategy": "ApplyForAll"},
        "gpu": {"requiredTopologyScope": "NUMANode"},
    }


def test_two_hints_about_cards_are_refused() -> None:
    annotations = {"nvidia.com/numa-bind": "true", HINT: '{"gpu":{"requiredTopologyScope":"PCIe"}}'}
    found = translated(pod(SLICE, annotations=annotations), "koordinator")
    assert [each.about for each in found.findings] == [HINT]
    assert found.fidelity is Fidelity.REFUSED


@pytest.mark.parametrize("source", [SLICE, KOORDINATORS])
@pytest.mark.parametrize(
    ("key", "good", "bad"),
    [
        (HINT, '{"rdma":{}}', '{"rdma":{"allocateStrategy":"All"}}'),
        (JOINT, '{"deviceTypes":["gpu","rdma"],"requiredScope":"SamePCIe"}', '{"requiredScope":"Rack"}'),
        (PARTITION, '{"allocatePolicy":"Restricted"}', '{"allocatePolicy":"Maybe"}'),
    ],
)
def test_wishes_stay_where_koordinator_can_read_them(source: dict[str, object], key: str, good: str, bad: str) -> None:
    limits = {**source, RDMA: 1}
    kept = moved(pod(limits, labels=LABEL, annotations={key: good}), "koordinator")
    assert kept["metadata"]["annotations"][key] == good
    found = translated(pod(limits, labels=LABEL, annotations={key: bad}), "koordinator")
    (refusal,) = (each for each in found.findings if each.fidelity is Fidelity.REFUSED)
    assert refusal.about == key
    assert "lets the pod wait" in refusal.words


@pytest.mark.parametrize("key", [JOINT, PARTITION])
def test_wishes_that_only_koordinator_meets_are_refused_elsewhere(key: str) -> None:
    found = translated(pod(KOORDINATORS, labels=LABEL, annotations={key: "{}"}), "hami")
    assert [each.about for each in found.findings] == [key]


@pytest.mark.parametrize(
    "names", [{"metax-tech.com/sgpu": 1}, {"cambricon.com/mlu.smlu.vcore": 30, "cambricon.com/mlu.smlu.vmemory": 4}]
)
def test_names_that_other_makers_want_beside_koordinators_are_its_words(names: dict[str, int]) -> None:
    raw = pod({SHARED: 1, CORE: 30, RATIO: 50, **names}, schedulerName="koord-scheduler")
    found = translated(raw, "koordinator")
    assert (found.edits, found.findings) == ((), ())
    assert translated(raw, "hami").fidelity is Fidelity.REFUSED
