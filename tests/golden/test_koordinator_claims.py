"""Sentences of the reference about Koordinator that are not pairs of input and output, each tried on this project's
code.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from hami_plugins.engine import koordinator as rules
from hami_plugins.errors import WireError
from hami_plugins.model.edits import made
from hami_plugins.model.units import DeviceId
from hami_plugins.vendors.koordinator import SPEC, asked_by, read
from hami_plugins.wire import koordinator as wire
from hami_plugins.wire import koordinator_devices, pod_devices, pods, volcano
from hami_plugins.wire.koordinator import ALLOCATED_KEY, CORE, GPU, GPU_TYPE, MEMORY, RATIO, SHARED
from hami_plugins.wire.koordinator_devices import VENDOR_LABEL, DeviceObject
from koordinator_adapter.core import allocations, injection
from koordinator_adapter.core.admission.completeness import objection
from koordinator_adapter.core.devices import minors, sums
from koordinator_adapter.core.devices.publication import KeepObject
from koordinator_adapter.core.translation.koordinator_reader import amounts_of
from koordinator_adapter.core.translation.model import Fidelity, TranslationOptions
from koordinator_adapter.core.translation.vocabulary import GANG_NAME, GROUP, HINT, ISOLATION, OLD_GROUP
from tests.golden.cases import Case, each, of
from tests.unit.koordinator_adapter.devices.nodes import a_node, card, planned, published
from tests.unit.koordinator_adapter.doctor.cluster import diagnosis, healthy
from tests.unit.koordinator_adapter.written import Raw, limits_of, moved, pod, translated

HALF = {SHARED: 1, RATIO: 50, CORE: 50}
SLICE = {"nvidia.com/gpu": 2, "nvidia.com/gpumem": 1000, "nvidia.com/gpucores": 10}
LABEL = {ISOLATION: "HAMi-core"}
PERCENT = {"nvidia.com/gpu": 2, "nvidia.com/gpumem-percentage": 40, "nvidia.com/gpucores": 10}
WHOLE = {"nvidia.com/gpu": 2}
CARD = {
    "koordinator.sh/gpu-core": "100",
    "koordinator.sh/gpu-memory": "24564Mi",
    "koordinator.sh/gpu-memory-ratio": "100",
}
MIB = 1 << 20


def asked(*limits: Mapping[str, object], init: Mapping[str, object] | None = None) -> Mapping[str, int]:
    raw = pod(*limits)
    if init is not None:
        raw["spec"]["initContainers"] = [{"name": "i", "resources": {"limits": dict(init)}}]
    return asked_by(pods.pod(raw))


def per_card(amounts: Mapping[str, int]) -> tuple[int, Mapping[str, int], bool]:
    found = rules.request_of(amounts)
    assert not isinstance(found, rules.IllegalRequest)
    return found.count, found.per_card, found.shared


def words(amounts: Mapping[str, int]) -> str:
    found = rules.request_of(amounts)
    return found.words if isinstance(found, rules.IllegalRequest) else ""


def a_device(*cards: Mapping[str, Any], vendor: str | None = None) -> DeviceObject:
    labels = {} if vendor is None else {VENDOR_LABEL: vendor}
    listed = [{"type": "gpu", "minor": at, "health": True, "resources": CARD, **each} for at, each in enumerate(cards)]
    return koordinator_devices.decode({"metadata": {"name": "n", "labels": labels}, "spec": {"devices": listed}})


def record(*items: Mapping[str, Any]) -> str:
    return json.dumps({"gpu": [{"minor": at, **each} for at, each in enumerate(items)]})


def limits(
    resources: Mapping[str, str], *, label: bool = True, wants: Mapping[str, object] = HALF
) -> injection.PodLimits:
    raw = pod(wants, labels=LABEL if label else {})
    cards = wire.decode(record({"resources": resources}))[GPU_TYPE]
    return injection.limits_of(raw, pods.pod(raw), cards)


def unreadable(text: str) -> bool:
    try:
        wire.decode(text)
    except WireError:
        return True
    return False


def injected(raw: Raw) -> Raw:
    edits = injection.edits_of(raw, pods.pod(raw), "/usr/local/vgpu", "/tmp/vgpulock")  # noqa: S108 - the usual one
    assert isinstance(edits, tuple)
    return made(raw, edits)


def with_init() -> Raw:
    raw = pod(HALF, {}, labels=LABEL)
    raw["spec"]["initContainers"] = [{"name": "i"}]
    return injected(raw)


def environment(container: Raw) -> set[str]:
    return {each_one["name"] for each_one in container.get("env", ())}


def gang(**keys: str) -> str | None:
    labels = {key: value for key, value in keys.items() if key != GANG_NAME}
    annotations = {key: value for key, value in keys.items() if key == GANG_NAME}
    raw = moved(pod(HALF, labels={**labels, **LABEL}, annotations=annotations), "volcano")
    found: str | None = raw["metadata"]["annotations"].get("scheduling.k8s.io/group-name")
    return found


def slots_lacking() -> set[str]:
    objects = healthy()
    objects["manager"]["spec"]["template"]["spec"]["containers"][0]["args"] = []
    del objects["node"]["status"]["allocatable"][SHARED]
    return {each_one.check for each_one in diagnosis(objects).findings}


def there_and_back(limits: Mapping[str, object]) -> bool:
    raw = pod(limits, schedulerName="hami-scheduler", runtimeClassName="nvidia")
    return moved(moved(raw, "koordinator"), "hami") == raw


def spoken(raw: Raw) -> Raw:
    found = moved(raw, "koordinator")
    resources = found["spec"]["containers"][0]["resources"]
    assert resources.get("requests", resources["limits"]) == resources["limits"]
    return found


def reset(node: Raw) -> Mapping[str, Any]:
    change = sums.change_of(node, a_device({"health": False}))
    return {} if change is None else change["status"]["capacity"]


OFFERING = {
    "metadata": {"name": "n", "resourceVersion": "1", "labels": {VENDOR_LABEL: "nvidia"}},
    "status": {part: dict.fromkeys(sums.NAMES, "1") for part in ("capacity", "allocatable")},
}

HOLDS: Mapping[str, Callable[[], object]] = {
    "prose-001": lambda: (
        (asked({RATIO: 20, SHARED: 1}, {RATIO: 20}, init={RATIO: 60}), asked({RATIO: 20}, {RATIO: 20}))
        == ({RATIO: 60, SHARED: 1}, {RATIO: 40})
    ),
    "prose-002": lambda: asked({CORE: 0, RATIO: 50}) == {RATIO: 50},
    "prose-003": lambda: (
        not per_card(asked({RATIO: 50}, {RATIO: 50}))[2]
        and translated(pod({RATIO: 50}, {RATIO: 50}), "hami").fidelity is Fidelity.REFUSED
    ),
    "prose-006": lambda: words({SHARED: 1, CORE: 50}).endswith(f"[{CORE} {SHARED}]"),
    "prose-007": lambda: (
        rules.converted({"nvidia.com/gpu": 2}) == {CORE: 200, RATIO: 200} == rules.converted({GPU: 200})
        and rules.converted(HALF) is HALF
    ),
    "prose-008": lambda: (
        [per_card(each_one)[0] for each_one in ({CORE: 100, MEMORY: 4 * MIB}, {SHARED: 3, RATIO: 99}, {RATIO: 200})]
        == [1, 3, 2]
    ),
    "prose-009": lambda: (
        [per_card(each_one)[2] for each_one in ({MEMORY: MIB}, {RATIO: 99}, {RATIO: 100})] == [True, True, False]
    ),
    "prose-011": lambda: (
        (rules.bytes_of(33, 24564 * MIB), rules.percent_of(12282 * MIB - 1, 24564 * MIB)) == (8499882885, 49)
    ),
    "prose-013": lambda: (
        all(
            set(limits_of(moved(pod(each_one), "koordinator"))) in ({SHARED, CORE, MEMORY}, {SHARED, CORE, RATIO})
            for each_one in (SLICE, PERCENT, WHOLE, {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 1000})
        )
        and {CORE, MEMORY, RATIO} <= published(a_node(card(0)))["spec"]["devices"][0]["resources"].keys()
    ),
    "prose-014": lambda: all(
        rules.percent_of(-(-percent * 24564 * MIB // 100), 24564 * MIB) == percent for percent in range(1, 101)
    ),
    "prose-018": lambda: all(
        SHARED not in each_one["resources"]
        for each_one in json.loads(
            wire.encode(
                allocations.synthesised(
                    pod_devices.decode(ALLOCATED_KEY, "GPU-0,NVIDIA,1000,10:;")[0],
                    [allocations.NodeDevice(0, DeviceId("GPU-0"), 24564 * MIB)],
                )
            )
        )["gpu"]
    ),
    "prose-019": lambda: (
        wire.decode('{"gpu":[{"minor":0,"resources":{"kubernetes.io/gpu-memory":1024}}],"tpu":[{"minor":1}]}').keys()
        == {"gpu", "tpu"}
    ),
    "prose-020": lambda: unreadable("incorrect-device-allocation"),
    "prose-021": lambda: (
        wire.encode(
            wire.decode(
                '{"gpu":[{"id":"G","resources":{"koordinator.sh/gpu-memory":"1Gi","koordinator.sh/gpu-core":5},"minor":1}]}'
            )
        )
        == '{"gpu":[{"minor":1,"resources":{"koordinator.sh/gpu-core":"5","koordinator.sh/gpu-memory":"1Gi"},'
        '"id":"G"}]}'
    ),
    "prose-023": lambda: (
        translated(pod(SLICE, annotations={"nvidia.com/use-gpuuuid": "GPU-a"}), "koordinator").fidelity
        is Fidelity.REFUSED
    ),
    "prose-024": lambda: (
        translated(pod(HALF, labels=LABEL, annotations={HINT: "{"}), "hami").fidelity is Fidelity.REFUSED
    ),
    "prose-027": lambda: sums.labels_of(OFFERING, None) is None,
    "prose-028": lambda: published(a_node(card(0)))["metadata"]["name"] == "n",
    "prose-029": lambda: sums.sums_of(a_device({"health": False})) == {},
    "prose-030": lambda: (
        minors.numbered([(DeviceId(str(at)), at) for at in range(64)], {}).without == ("63",)
        and a_device({"minor": None}).devices == ()
    ),
    "prose-031": lambda: all(
        "topology" in each_one for each_one in published(a_node(card(0), card(1)))["spec"]["devices"]
    ),
    "prose-033": lambda: any(
        each_one.check == "record"
        for each_one in diagnosis(
            {name: raw for name, raw in healthy().items() if name != "device"}
            | {"pod": {**healthy()["pod"], "metadata": {**healthy()["pod"]["metadata"], "annotations": {}}}}
        ).findings
    ),
    "prose-038": lambda: (
        (
            GPU in sums.sums_of(a_device({})),
            GPU in sums.sums_of(a_device({}, vendor="acme")),
            set(sums.sums_of(a_device({}, vendor="acme"))) == {CORE, MEMORY, RATIO, SHARED},
        )
        == (True, False, True)
    ),
    "prose-039": lambda: (
        {each_one.check for each_one in diagnosis({n: r for n, r in healthy().items() if n != "settings"}).findings}
        == {"colocation"}
    ),
    "prose-040": lambda: reset(OFFERING) == dict.fromkeys(sums.NAMES),
    "prose-044": lambda: all(
        "CUDA_DEVICE_MEMORY_LIMIT_0" in environment(each_one)
        for each_one in (*with_init()["spec"]["containers"], *with_init()["spec"]["initContainers"])
    ),
    "prose-045": lambda: (
        (
            bool(
                limits(
                    {CORE: "50", RATIO: "100", MEMORY: "24564Mi"}, wants={SHARED: 1, MEMORY: "24564Mi", CORE: 50}
                ).not_hooked
            ),
            bool(limits({MEMORY: "1Gi"}).not_hooked),
            bool(limits({RATIO: "50"}).not_hooked),
        )
        == (True, True, True)
    ),
    "prose-046": lambda: "LD_PRELOAD" not in environment(with_init()["spec"]["containers"][0]),
    "prose-050": lambda: moved(pod(SLICE), "koordinator")["spec"]["nodeSelector"].items() >= LABEL.items(),
    "prose-051": lambda: (
        [
            gang(**{GROUP: "a", OLD_GROUP: "b", GANG_NAME: "c"}),
            gang(**{OLD_GROUP: "b", GANG_NAME: "c"}),
            gang(**{GANG_NAME: "c"}),
        ]
        == ["a", "b", "c"]
    ),
    "prose-053": lambda: rules.normalised({"nvidia.com/gpu": 1}) == {"nvidia.com/gpu": 1},
    "prose-054": lambda: (
        (
            rules.normalised({GPU: 200}),
            rules.normalised({RATIO: 200, CORE: 100})[SHARED],
            rules.normalised({CORE: 200, MEMORY: MIB})[SHARED],
        )
        == ({CORE: 200, RATIO: 200, SHARED: 2}, 2, 2)
    ),
    "prose-055": lambda: "shared-slots" in slots_lacking(),
    "prose-056": lambda: not objection({SHARED: 2, RATIO: 202}) and words({SHARED: 2, RATIO: 202}),
    "prose-057": lambda: all(
        rules.normalised(found) is found
        for found in (
            amounts_of(pods.pod(moved(pod(each_one), "koordinator")), 0) for each_one in (SLICE, PERCENT, WHOLE)
        )
    ),
    "prose-058": lambda: (
        MEMORY in limits_of(moved(pod({**SLICE, "nvidia.com/gpumem-percentage": 50}), "koordinator"))
        and RATIO
        in limits_of(
            moved(
                pod(
                    {"volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-memory": 1, "volcano.sh/vgpu-memory-percentage": 5},
                    schedulerName="volcano",
                ),
                "koordinator",
            )
        )
    ),
    "prose-059": lambda: all(
        name.startswith("koordinator.sh/") for name in limits_of(spoken(pod({**SLICE, "nvidia.com/priority": 1})))
    ),
    "prose-060": lambda: (
        [
            moved(pod(each_one), "koordinator")["metadata"].get("labels", {}).get(ISOLATION)
            for each_one in (SLICE, PERCENT, WHOLE)
        ]
        == ["HAMi-core", "HAMi-core", None]
    ),
    "prose-061": lambda: RATIO not in limits_of(moved(pod(SLICE), "koordinator", TranslationOptions(card_memory=None))),
    "prose-062": lambda: all(
        0 <= rules.bytes_of(percent, total * MIB) - total * percent // 100 * MIB < MIB
        for percent in range(101)
        for total in (24564, 81559)
    ),
    "prose-063": lambda: (
        read(SPEC, pods.pod(pod(HALF)), record({"id": "G", "resources": CARD}, {"resources": CARD}))
        .unlocated[0]
        .device_index
        == 1
    ),
    "prose-064": lambda: (
        [limits({RATIO: ratio, MEMORY: "1Gi"}, label=True, wants={}).shares for ratio in ("99", "100")] == [True, False]
    ),
    "prose-065": lambda: (
        (
            pod_devices.encode([(), ()]),
            volcano.encode_assignment([(), ()]),
        )
        == (";;", ";")
    ),
    "prose-066": lambda: all(
        translated(raw, "hami").fidelity is Fidelity.REFUSED
        for raw in (
            pod({"koordinator.sh/gpu-shared": 1, RATIO: 50}),
            pod(HALF, labels={ISOLATION: "hami-core"}),
        )
    ),
    "prose-067": lambda: GPU not in limits_of(spoken(pod({GPU: 50}, labels=LABEL))),
    "prose-068": lambda: all(map(there_and_back, (SLICE, PERCENT, WHOLE))),
    "prose-069": lambda: isinstance(planned(a_node(card(0)), reported=True).step, KeepObject),
}
"""For each sentence something that is true where our code goes by it."""

THEIRS = {case.id for case in of("koordinator/prose.yaml")} - HOLDS.keys()
"""What only Koordinator's own programs do, and on which nothing here depends."""


@each("koordinator/prose.yaml", without=THEIRS)
def test_a_sentence_of_the_reference_holds(case: Case) -> None:
    assert HOLDS[case.id](), case.given["claim"]
