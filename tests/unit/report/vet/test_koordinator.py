"""What vet says of cards in several containers of one pod of Koordinator's: what its scheduler really makes of them."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
import yaml

from hami_plugins.report import vet
from hami_plugins.report.vet import Finding, Severity
from hami_plugins.vendors import builtin

HALF = {"koordinator.sh/gpu.shared": 1, "koordinator.sh/gpu-core": 50, "koordinator.sh/gpu-memory-ratio": 50}


def found(*containers: Mapping[str, object], init: tuple[Mapping[str, object], ...] = ()) -> dict[str, Finding]:
    listed = [{"name": f"c{at}", "resources": {"limits": dict(each)}} for at, each in enumerate(containers)]
    starting = [{"name": f"i{at}", "resources": {"limits": dict(each)}} for at, each in enumerate(init)]
    spec = {"schedulerName": "koord-scheduler", "containers": listed, "initContainers": starting}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}
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
    assert finding.severity is Severity.WARNING
    assert words in finding.message


def test_of_an_init_container_and_an_application_the_larger_counts() -> None:
    assert "HP902" not in found(HALF, init=(HALF,))


def test_a_sum_that_is_refused_is_an_error_of_another_rule() -> None:
    halves = ({"koordinator.sh/gpu": 50}, {"koordinator.sh/gpu": 100})
    assert "HP902" not in found(*halves)
    assert found(*halves)["HP901"].severity is Severity.ERROR


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
