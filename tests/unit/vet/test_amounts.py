"""What vet says becomes of memory in the wrong unit: what each scheduler really makes of it."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
import yaml

from hami_plugins import vet
from hami_plugins.vendors import builtin
from hami_plugins.vet import VetFinding


def found(
    limits: Mapping[str, object], *, scheduler: str = "", requests: Mapping[str, object] | None = None
) -> dict[str, VetFinding]:
    resources = {"limits": dict(limits), "requests": dict(requests or {})}
    spec = {"schedulerName": scheduler, "containers": [{"name": "main", "resources": resources}]}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}
    documents = vet.read(yaml.safe_dump(body), source="f").documents
    return {each.rule: each for each in vet.vet(documents, builtin())}


VOLCANO = "Volcano from 1.13 on finds no node with so much, and before it keeps the last 32 bits: "


@pytest.mark.parametrize(
    ("limits", "scheduler", "words"),
    [
        pytest.param(
            {"nvidia.com/gpu": 1, "nvidia.com/gpumem": "16Gi"},
            "",
            "HAMi 2.10 admits the pod, and takes the container for one without devices; write 16384",
            id="HAMi counts nothing",
        ),
        pytest.param(
            {"nvidia.com/gpu": 1, "nvidia.com/gpumem": "16.3Gi"},
            "",
            "the API server takes whole amounts only; write 16691",
            id="the API server refuses it",
        ),
        pytest.param(
            {"mthreads.com/vgpu": 1, "mthreads.com/sgpu-memory": "16Gi"},
            "",
            "HAMi's webhook refuses the pod; write 32, which is 16384 MiB",
            id="HAMi's webhook looks",
        ),
        pytest.param(
            {"volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-memory": "16Gi"},
            "volcano",
            f"{VOLCANO}0, which is the whole card; write 16384",
            id="nothing is left of it",
        ),
        pytest.param(
            {"volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-memory": "5000Mi"},
            "volcano",
            f"{VOLCANO}947912704 MiB, which no card has; write 5000",
            id="something is left of it",
        ),
        pytest.param(
            {"volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-memory": "3Gi"},
            "volcano",
            f"{VOLCANO}-1073741824 MiB, which every card has; write 3072",
            id="less than nothing is left of it",
        ),
        pytest.param(
            {"volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-memory": "2048Ki"},
            "volcano",
            "Volcano reads it as 2097152 MiB, which no card has; write 2",
            id="all of it is left",
        ),
    ],
)
def test_what_becomes_of_memory_in_bytes_is_said_of_the_scheduler_that_reads_it(
    limits: Mapping[str, object], scheduler: str, words: str
) -> None:
    assert f"not in bytes: {words}" in found(limits, scheduler=scheduler)["HP211"].message


def test_a_fraction_of_memory_is_told_to_be_written_as_a_whole_number() -> None:
    assert found({"nvidia.com/gpu": 1, "nvidia.com/gpumem": 4000.5})["HP203"].fix == "write a whole number from 1"


def test_the_missing_count_is_not_said_of_what_the_webhook_refuses_anyway() -> None:
    assert set(found({"nvidia.com/gpumem-percentage": 50})) == {"HP206"}
    assert set(found({"nvidia.com/gpumem-percentage": 150})) == {"HP215"}
    assert set(found({"nvidia.com/gpumem-percentage": -50})) == {"HP204"}


@pytest.mark.parametrize(("written", "shown"), [([1], "[1]"), (True, "True"), ("x" * 200, "x" * 100)])
def test_what_is_no_amount_is_shown_cut_short(written: object, shown: str) -> None:
    finding = found({}, requests={"nvidia.com/gpu": written})["HP201"]
    assert f"nvidia.com/gpu={shown} is a request without a limit" in finding.message
