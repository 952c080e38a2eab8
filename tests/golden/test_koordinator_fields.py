"""The table of fields of HAMi, Volcano and Koordinator, row by row, both ways."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from hami_plugins.wire.koordinator import CORE, MEMORY, RATIO, RDMA, SHARED
from koordinator_adapter.core.translation.model import Fidelity, TranslationOptions
from koordinator_adapter.core.translation.vocabulary import HINT, ISOLATION, JOINT
from tests.golden.cases import Case, each
from tests.unit.koordinator_adapter.written import Raw, limits_of, moved, pod, translated

FIDELITIES = {"lossless": Fidelity.LOSSLESS, "lossy": Fidelity.LOSSY, "refuse": Fidelity.REFUSED}
SLICE = {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 1000, "nvidia.com/gpucores": 10}
LIMITED = {"labels": {ISOLATION: "HAMi-core"}}
NUMA = '{"gpu":{"requiredTopologyScope":"NUMANode"}}'


class Row(NamedTuple):
    """A pod of HAMi's or Volcano's and what its parts become; a pod of Koordinator's and what HAMi's limits are then.

    Without a result the pod is refused.
    """

    before: Raw
    after: Mapping[tuple[object, ...], object] = {}
    back: Raw | None = None
    limits: Mapping[str, object] | None = None
    settings: TranslationOptions = TranslationOptions()


def volcanos(**limits: object) -> Raw:
    found: Raw = pod({f"volcano.sh/vgpu-{name}": amount for name, amount in limits.items()}, schedulerName="volcano")
    return found


def hamis(**limits: object) -> Raw:
    return pod({"nvidia.com/gpu": 1, **{f"nvidia.com/gpu{name}": amount for name, amount in limits.items()}})


def limit(name: str) -> tuple[object, ...]:
    return ("spec", "containers", 0, "resources", "limits", name)


ROWS: Mapping[str, Row] = {
    "field-slices-n": Row(
        pod({**SLICE, "nvidia.com/gpu": 3}),
        {limit(SHARED): 3},
        pod({SHARED: 3, MEMORY: "3000Mi", CORE: 30}, **LIMITED),
        {**SLICE, "nvidia.com/gpu": 3},
    ),
    "field-mib-per-slice": Row(
        pod({**SLICE, "nvidia.com/gpu": 2, "nvidia.com/gpumem": 1024}),
        {limit(MEMORY): "2Gi"},
        pod({SHARED: 2, MEMORY: "1"}, **LIMITED),
    ),
    "field-memory-percent": Row(
        pod({"nvidia.com/gpu": 2, "nvidia.com/gpumem-percentage": 30, "nvidia.com/gpucores": 10}),
        {limit(RATIO): 60},
        pod({SHARED: 2, RATIO: 61, CORE: 20}, **LIMITED),
    ),
    "field-percent-vs-mib-both-set": Row(
        volcanos(number=1, memory=4096, **{"memory-percentage": 50}, cores=10), {limit(RATIO): 50}
    ),
    "field-cores": Row(
        pod({**SLICE, "nvidia.com/gpu": 2, "nvidia.com/gpucores": 30}),
        {limit(CORE): 60},
        pod({SHARED: 2, MEMORY: "2000Mi"}, **LIMITED),
        {"nvidia.com/gpu": 2, "nvidia.com/gpumem": 1000},
    ),
    "field-exclusive-card": Row(
        hamis(mem=1000, cores=100),
        {limit(CORE): 100, limit(MEMORY): "1000Mi"},
        pod({SHARED: 1, CORE: 100, RATIO: 100}),
        {"nvidia.com/gpu": 1},
    ),
    "field-whole-gpus": Row(
        pod({"nvidia.com/gpu": 2}),
        {limit(SHARED): 2, limit(CORE): 200, limit(RATIO): 200, limit("nvidia.com/gpu"): None},
        pod({SHARED: 2, CORE: 200, RATIO: 200}),
        {"nvidia.com/gpu": 2},
    ),
    "field-isolation": Row(
        hamis(mem=1000, cores=10),
        {("metadata", "labels", ISOLATION): "HAMi-core"},
        pod({SHARED: 1, MEMORY: "1000Mi", CORE: 10}),
        SLICE,
    ),
    "field-uuid-include-exclude": Row(pod(SLICE, annotations={"nvidia.com/use-gpuuuid": "GPU-a"})),
    "field-type-include-exclude": Row(
        pod(SLICE, annotations={"nvidia.com/use-gputype": "a10"}),
        {("spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution"): any},
        settings=TranslationOptions(models=("NVIDIA-A10", "NVIDIA-H100")),
    ),
    "field-node-gpu-policy": Row(
        pod(SLICE, annotations={"hami.io/gpu-scheduler-policy": "binpack"}),
        {("spec", "schedulerName"): "koord-packed"},
        settings=TranslationOptions(profiles={"binpack": "koord-packed"}),
    ),
    "field-numa-bind": Row(
        pod(SLICE, annotations={"nvidia.com/numa-bind": "true"}),
        {("metadata", "annotations", HINT): NUMA},
        pod({SHARED: 1, MEMORY: "1000Mi", CORE: 10}, annotations={HINT: NUMA}, **LIMITED),
        SLICE,
    ),
    "field-mode-mig-mps": Row(pod(SLICE, annotations={"nvidia.com/vgpu-mode": "mps"})),
    "field-task-priority": Row(
        pod({**SLICE, "nvidia.com/priority": 1}),
        {("spec", "containers", 0, "env"): [{"name": "CUDA_TASK_PRIORITY", "value": "1"}]},
        pod({SHARED: 1, MEMORY: "1000Mi", CORE: 10}, env={"CUDA_TASK_PRIORITY": "1"}, **LIMITED),
        {**SLICE, "nvidia.com/priority": 1},
    ),
    "field-core-policy": Row(
        pod(SLICE, env={"GPU_CORE_UTILIZATION_POLICY": "force"}),
        {("spec", "containers", 0, "env"): [{"name": "GPU_CORE_UTILIZATION_POLICY", "value": "force"}]},
        pod({SHARED: 1, MEMORY: "1000Mi", CORE: 10}, env={"GPU_CORE_UTILIZATION_POLICY": "force"}, **LIMITED),
        SLICE,
    ),
    "field-split-count": Row(hamis(mem=1000), {limit(CORE): 20}, settings=TranslationOptions(slices_per_card=5)),
    "field-scheduler": Row(hamis(mem=1000, cores=10), {("spec", "schedulerName"): "koord-scheduler"}),
    "field-runtime": Row(hamis(mem=1000, cores=10), {("spec", "runtimeClassName"): "nvidia"}),
    "field-gang": Row(
        pod(
            {"volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-cores": 100},
            annotations={"scheduling.k8s.io/group-name": "g"},
            schedulerName="volcano",
        ),
        {("metadata", "labels", "pod-group.scheduling.sigs.k8s.io"): "g"},
    ),
    "field-per-container-limits": Row(pod(SLICE, SLICE)),
    "field-rdma-joint-partition-template-npu": Row(
        pod({**SLICE, RDMA: 100}, annotations={JOINT: '{"deviceTypes":["gpu","rdma"]}'}),
        {limit(RDMA): 100},
        pod({SHARED: 1, MEMORY: "1000Mi", CORE: 10, RDMA: 100}, **LIMITED),
    ),
}
"""A pod for each row."""

ELSEWHERE = ("field-memory-overscale", "field-allocation-record")
"""A setting of nodes, which no pod carries; and records of running pods (``readback.yaml``)."""


def inside(raw: Raw, path: tuple[object, ...]) -> object:
    found: Any = raw
    for step in path:
        found = found.get(step) if isinstance(found, dict) else found[step]
    return found


@each("koordinator/field-table.yaml", without=ELSEWHERE)
def test_a_row_of_the_table_is_translated_as_it_says(case: Case) -> None:
    row = ROWS[case.id]
    found = translated(row.before, "koordinator", row.settings)
    wanted = FIDELITIES.get(case.expect["fidelity_to"] or "", found.fidelity)
    assert found.fidelity is wanted
    assert (found.fidelity is Fidelity.REFUSED) is (not row.after)
    if row.after:
        becomes = moved(row.before, "koordinator", row.settings)
        for path, value in row.after.items():
            there = inside(becomes, path)
            assert there if value is any else str(there) == str(value), (path, there)
    if row.back is None:
        return
    if row.limits is None:
        assert translated(row.back, "hami").fidelity is not Fidelity.LOSSLESS
    else:
        given = {name: str(amount) for name, amount in limits_of(moved(row.back, "hami")).items()}
        assert given == {name: str(amount) for name, amount in row.limits.items()}
