"""What vet says becomes of memory in the wrong unit: what each scheduler really makes of it."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
import yaml

from hami_plugins.report import vet
from hami_plugins.report.vet import Finding
from hami_plugins.vendors import builtin


def found(limits: Mapping[str, object], *, scheduler: str = "") -> dict[str, Finding]:
    spec = {"schedulerName": scheduler, "containers": [{"name": "main", "resources": {"limits": dict(limits)}}]}
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
            "HAMi 2.10 admits the pod, and takes the container for one without devices; write 16384, which is 16384 "
            "MiB",
            id="HAMi counts nothing",
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
