"""What vet says of cards in several containers of one pod of Koordinator's: what its scheduler really makes of them."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
import yaml

from hami_plugins import vet
from hami_plugins.vendors import builtin
from hami_plugins.vet import VetFinding, VetSeverity

HALF = {"koordinator.sh/gpu.shared": 1, "koordinator.sh/gpu-core": 50, "koordinator.sh/gpu-memory-ratio": 50}


def found(
    *containers: Mapping[str, object],
    init: tuple[Mapping[str, object], ...] = (),
    labels: Mapping[str, str] | None = None,
) -> dict[str, VetFinding]:
    listed = [{"name": f"c{at}", "resources": {"limits": dict(each)}} for at, each in enumerate(containers)]
    starting = [{"name": f"i{at}", "resources": {"limits": dict(each)}} for at, each in enumerate(init)]
    spec = {"schedulerName": "koord-scheduler", "containers": listed, "initContainers": starting}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": dict(labels or {})}, "spec": spec}
    documents = vet.read(yaml.safe_dump(body), source="f").documents
    return {each.rule: each for each in vet.vet(documents, builtin())}


@pytest.mark.parametrize(
    ("containers", "words"),
    [
        pytest.param(
            (HALF, HALF), "the pod has 2 cards with 50 % of the memory of each, and each container", id="shared"
        ),
        pytest.param(
            ({"koordinator.sh/gpu": 50}, {"koordinator.sh/gpu": 50}),
            "the pod has 1 whole card without limits, and each container sees all of it; where Koordinator's webhook "
            "runs, "
            "the pod has 2 cards with 50 % of the memory of each",
            id="without a number of cards",
        ),
        pytest.param(
            ({"koordinator.sh/gpu": 150}, {"koordinator.sh/gpu": 150}),
            "the pod has 3 whole cards without limits, and each container sees all of them; where Koordinator's "
            "webhook runs, the pod has no legal request; put",
            id="no legal request with the webhook",
        ),
        pytest.param(
            ({"koordinator.sh/gpu.shared": 1, "koordinator.sh/gpu-memory": "8Gi"},) * 3,
            "the pod has 3 cards with 8,192 MiB of each",
            id="bytes",
        ),
        pytest.param(
            ({"koordinator.sh/gpu": 100}, {"koordinator.sh/gpu": 100}),
            "the pod has 2 whole cards without limits, and each container sees all of them; put",
            id="whole cards, with the webhook and without",
        ),
    ],
)
def test_the_sum_of_containers_is_said_as_the_scheduler_assigns_it(
    containers: tuple[Mapping[str, object], ...], words: str
) -> None:
    finding = found(*containers)["HP902"]
    assert finding.severity is VetSeverity.WARNING
    assert words in finding.message


def test_of_an_init_container_and_an_application_the_larger_counts() -> None:
    assert "HP902" not in found(HALF, init=(HALF,))


def test_a_sum_that_is_refused_is_an_error_of_another_rule() -> None:
    halves = ({"koordinator.sh/gpu": 50}, {"koordinator.sh/gpu": 100})
    assert "HP902" not in found(*halves)
    assert found(*halves)["HP901"].severity is VetSeverity.ERROR


def test_whole_cards_by_nvidias_name_are_no_mistake_under_koordinators_scheduler() -> None:
    assert found({"nvidia.com/gpu": 2}) == {}


def test_deprecated_names_are_looked_at_like_the_present_ones() -> None:
    rules = found({"kubernetes.io/gpu-core": 50, "kubernetes.io/gpu-memory-ratio": 50})
    assert set(rules) == {"HP903"}
    assert set(found({"kubernetes.io/gpu-core": 50})) == {"HP901"}


def test_parts_by_hamis_names_are_still_a_mistake_there() -> None:
    assert "HP504" in found({"nvidia.com/gpu": 1, "nvidia.com/gpumem": 4000})


def test_whole_npus_are_told_which_gate_of_koordinator_has_to_be_set() -> None:
    (finding,) = found({"huawei.com/npu-core": 20, "koordinator.sh/gpu-memory-ratio": 100}).values()
    assert finding.rule == "HP901"
    assert "DisableDeviceResourceSpec=true" in finding.fix


def test_another_isolation_provider_is_noted_and_not_called_a_mistake() -> None:
    finding = found(HALF, labels={"koordinator.sh/gpu-isolation-provider": "MPS"})["HP903"]
    assert finding.severity is VetSeverity.NOTE
    assert "HAMi-core does not limit the pod" in finding.message


def test_another_spelling_of_hami_core_is_an_error() -> None:
    finding = found(HALF, labels={"koordinator.sh/gpu-isolation-provider": "hamicore"})["HP903"]
    assert finding.severity is VetSeverity.ERROR
    assert "write HAMi-core" in finding.fix


def test_whole_cards_by_nvidias_name_beside_koordinators_are_refused_by_its_scheduler() -> None:
    rules = found({**HALF, "nvidia.com/gpu": 1})
    assert set(rules) == {"HP901"}
    assert "leave nvidia.com/gpu out" in rules["HP901"].fix


@pytest.mark.parametrize(
    "names", [{"metax-tech.com/sgpu": 1}, {"cambricon.com/mlu.smlu.vcore": 50, "cambricon.com/mlu.smlu.vmemory": 4}]
)
def test_names_of_another_maker_beside_koordinators_are_no_mistake(names: Mapping[str, object]) -> None:
    assert found({**HALF, **names}) == {}


def test_a_sum_of_negative_amounts_is_an_error_of_another_rule() -> None:
    assert "HP902" not in found({"koordinator.sh/gpu": -50}, {"koordinator.sh/gpu": 100})


@pytest.mark.parametrize("name", ["koordinator.sh/batch-cpu", "kubernetes.io/batch-memory", "kubernetes.io/mid-cpu"])
def test_reclaimed_cpus_and_memory_are_no_cards_of_an_unknown_vendor(name: str) -> None:
    assert found({name: 1000}) == {}
