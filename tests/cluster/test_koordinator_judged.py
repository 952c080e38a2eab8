"""Koordinator's own scheduler judges what the translation makes of unusual requests, and every template of Ascend NPUs.

The translation runs in this process, so that each case has its own options; the adapter publishes the cards.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Final, NamedTuple

import pytest
import yaml

from hami_plugins.model.dialect import Dialect
from hami_plugins.model.edits import made
from hami_plugins.vendors import builtin
from hami_plugins.wire.koordinator import MEMORY, NPU_CORE, NPU_CPU, NPU_DVPP, SHARED, decode
from koordinator_adapter.core import allocations
from koordinator_adapter.core.translation.choices import NoCoreLimit
from koordinator_adapter.core.translation.model import TranslationOptions
from koordinator_adapter.core.translation.pods import translate
from koordinator_adapter.core.translation.reader import complete
from tests.cluster.api import Api, Object
from tests.cluster.card_nodes import Pool
from tests.cluster.koordinator import NAMESPACE, SCHEDULER, Koordinator
from tests.cluster.koordinator_adapter import WHOLE, Adapter, CardNodes, a_card, a_pod
from tests.cluster.waiting import wait_until

RECORD: Final = "scheduling.koordinator.sh/device-allocated"
MODEL: Final = "node.koordinator.sh/gpu-model"
CARDS: Final = 16
REGISTRY: Final = complete(builtin())
SHARE: Final = 10
"""Percent of a card's cores that count for a container without a limit of cores."""

TEMPLATES: Final[Mapping[str, Mapping[str, tuple[int, int, int, int]]]] = {
    "Ascend-310P3": {
        "vir01": (1, 1, 12, 3),
        "vir02": (2, 2, 25, 6),
        "vir02_1c": (2, 1, 25, 6),
        "vir04": (4, 4, 50, 12),
        "vir04_3c": (4, 3, 50, 12),
        "vir04_3c_ndvpp": (4, 3, 0, 12),
        "vir04_4c_dvpp": (4, 4, 100, 12),
    },
    "Ascend-910": {"vir02": (2, 1, 0, 2), "vir04": (4, 1, 0, 4), "vir08": (8, 3, 0, 8), "vir16": (16, 7, 0, 16)},
    "Ascend-910B2": {"vir03_1c_8g": (3, 1, 0, 8), "vir06_1c_16g": (6, 1, 0, 16), "vir12_3c_32g": (12, 3, 0, 32)},
    "Ascend-910B3": {"vir05_1c_16g": (5, 1, 0, 16), "vir10_3c_32g": (10, 3, 0, 32)},
    "Ascend-910B4": {
        "vir05_1c_8g": (5, 1, 25, 8),
        "vir10_3c_16g": (10, 3, 50, 16),
        "vir10_3c_16g_nm": (10, 3, 0, 16),
        "vir10_4c_16g_m": (10, 4, 100, 16),
    },
}
"""AI cores, AI CPUs, percent of the media processor and GiB, as the ConfigMap of Koordinator's charts 1.7.0 and 1.8.0
has them (``templates/gpu-shared-resource-templates.yaml``)."""

CHIPS: Final[Mapping[str, tuple[str, int]]] = {
    "Ascend-310P3": ("Ascend310P", 21527),
    "Ascend-910": ("Ascend910A", 32768),
    "Ascend-910B2": ("Ascend910B2", 65536),
    "Ascend-910B3": ("Ascend910B3", 65536),
    "Ascend-910B4": ("Ascend910B4", 32768),
}
"""HAMi's name of the chip, and the MiB that its agent registers."""

OF_HAMI: Final = (
    ("Ascend-310P3", 3072, "vir01"),
    ("Ascend-310P3", 6144, "vir02"),
    ("Ascend-310P3", 12288, "vir04"),
    ("Ascend-910", 2184, "vir02"),
    ("Ascend-910", 4369, "vir04"),
    ("Ascend-910", 8738, "vir08"),
    ("Ascend-910", 17476, "vir16"),
    ("Ascend-910B2", 8192, "vir03_1c_8g"),
    ("Ascend-910B2", 16384, "vir06_1c_16g"),
    ("Ascend-910B2", 32768, "vir12_3c_32g"),
    ("Ascend-910B3", 16384, "vir05_1c_16g"),
    ("Ascend-910B3", 32768, "vir10_3c_32g"),
    ("Ascend-910B4", 8192, "vir05_1c_8g"),
    ("Ascend-910B4", 16384, "vir10_3c_16g"),
)
"""The memory that HAMi's users write, in MiB, and the template that they mean."""


def hami(count: int = 0, **amounts: int) -> Mapping[str, int]:
    counted = {"nvidia.com/gpu": count} if count else {}
    return {**counted, **{f"nvidia.com/{name.replace('_', '-')}": amount for name, amount in amounts.items()}}


def volcano(count: int = 0, **amounts: int) -> Mapping[str, int]:
    counted = {"volcano.sh/vgpu-number": count} if count else {}
    return {**counted, **{f"volcano.sh/vgpu-{name.replace('_', '-')}": amount for name, amount in amounts.items()}}


@pytest.fixture(scope="module")
def adapter(koordinator: Koordinator) -> Iterator[Adapter]:
    """The server, which publishes the cards."""
    with Adapter(koordinator, devices={"grace": 10}) as running:
        yield running


@pytest.fixture(scope="module")
def cards(koordinator: Koordinator, adapter: Adapter) -> Iterator[CardNodes]:
    """One node of sixteen NVIDIA cards on two NUMA nodes."""
    with CardNodes(koordinator) as made_:
        listed = (a_card("many", at, numa=at // 8) for at in range(CARDS))
        made_.wait_summed(made_.add(*listed), 100 * CARDS)
        yield made_


@pytest.fixture(scope="module")
def npus(koordinator: Koordinator, adapter: Adapter) -> Iterator[Pool]:
    """A node of each chip, two NPUs each, and Koordinator's templates."""
    api = koordinator.plane.api
    data = {
        f"huawei-{model}": {name: _numbers(*numbers) for name, numbers in listed.items()}
        for model, listed in TEMPLATES.items()
    }
    metadata = {"name": "gpu-shared-resource-templates"}
    config = {"metadata": metadata, "data": {"data.yaml": yaml.safe_dump(data)}}
    koordinator.plane.apply(f"/api/v1/namespaces/{NAMESPACE}/configmaps", config)
    with Pool(koordinator.plane) as pool:
        for at, (word, memory) in enumerate(CHIPS.values()):
            name = f"{pool.name}-{at}"
            usual = {"count": 10, "devcore": 100, "devmem": memory, "type": word, "numa": 0, "health": True}
            told = json.dumps([{**usual, "id": f"{name}-{card}", "index": card} for card in range(2)])
            pool.put(name, [], annotations={f"hami.io/node-register-{word}": told})
        for at, model in enumerate(CHIPS):
            wait_until(
                partial(_offers, api, f"{pool.name}-{at}", model),
                f"a node of {model} offers its NPUs",
                60,
                show=koordinator.manager.log,
            )
        yield pool


def _offers(api: Api, node: str, model: str) -> bool:
    """Whether a node offers two cards of that model."""
    found = api.get(f"/api/v1/nodes/{node}")
    offered, named = found["status"]["allocatable"].get(SHARED), found["metadata"]["labels"].get(MODEL)
    return (offered, named) == ("200", model)


def _numbers(cores: int, cpus: int, dvpp: int, memory: int) -> Mapping[str, str]:
    found = {NPU_CORE: str(cores), NPU_CPU: str(cpus), NPU_DVPP: str(dvpp), MEMORY: f"{memory}Gi"}
    return {name: text for name, text in found.items() if text != "0"}


def moved(limits: Mapping[str, int], *, init: bool = False, **options: Any) -> Object:
    """A pod as the translation makes it; a refusal fails the test."""
    annotations = options.pop("annotations", {})
    raw = a_pod("a", limits, translated=False, annotations=annotations)
    if init:
        asking = raw["spec"]["containers"][0]
        raw["spec"]["initContainers"] = [{**asking, "name": "init"}]
        raw["spec"]["containers"] = [{"name": "main", "image": "i"}]
    found = translate(raw, Dialect.KOORDINATOR, REGISTRY, TranslationOptions(**{"runtime_class": "", **options}))
    assert found.edits, found.findings
    made_: Object = made(raw, found.edits)
    return made_


def judged(koordinator: Koordinator, namespace: str, pod: Object, selector: Mapping[str, str]) -> Object:
    """The pod once the scheduler has bound it to one of some nodes."""
    spec = {**pod["spec"], "nodeSelector": {**pod["spec"].get("nodeSelector", {}), **selector}}
    koordinator.plane.api.create(f"/api/v1/namespaces/{namespace}/pods", {**pod, "spec": spec})
    return koordinator.wait_bound(namespace, pod["metadata"]["name"])


def shares(pod: Object) -> list[tuple[int, int]]:
    """MiB and percent of the cores of each card that the scheduler recorded."""
    held = allocations.assigned(decode(pod["metadata"]["annotations"][RECORD]))
    return [(each.memory, each.cores) for each in held]


PERCENT: Final = {percent: WHOLE * percent // 100 for percent in (1, 33, 50, 99)}
WHOLE_CARD: Final = (WHOLE, 100)


class Request(NamedTuple):
    """What a container asks for, the options of the translation, and MiB and cores of each card that it means."""

    title: str
    limits: Mapping[str, int]
    options: Mapping[str, Any]
    meant: list[tuple[int, int]]


REQUESTS: Final = (
    Request("thirds of two", hami(2, gpumem_percentage=33, gpucores=33), {}, [(PERCENT[33], 33)] * 2),
    Request("thirds of three", volcano(3, memory_percentage=33, cores=33), {}, [(PERCENT[33], 33)] * 3),
    Request("three slices", hami(3, gpumem=3000, gpucores=10), {}, [(3000, 10)] * 3),
    Request("seven slices", hami(7, gpumem=1000, gpucores=7), {}, [(1000, 7)] * 7),
    Request("seven slices of Volcano", volcano(7, memory=1000, cores=7), {}, [(1000, 7)] * 7),
    Request("one MiB of each", hami(16, gpumem=1, gpucores=1), {}, [(1, 1)] * 16),
    Request("both memories, HAMi", hami(1, gpumem=2000, gpumem_percentage=50), {}, [(2000, SHARE)]),
    Request("both memories, Volcano", volcano(1, memory=2000, memory_percentage=50), {}, [(PERCENT[50], SHARE)]),
    Request("memory alone, HAMi", hami(gpumem=3000), {}, [(3000, SHARE)]),
    Request("memory alone, Volcano", volcano(memory=3000), {}, [(3000, SHARE)]),
    Request("percentage alone", hami(gpumem_percentage=50), {}, [(PERCENT[50], SHARE)]),
    Request("cores alone", hami(gpucores=50), {}, [WHOLE_CARD]),
    Request("all cores and a part, HAMi", hami(1, gpumem=1000, gpucores=100), {}, [(1000, 100)]),
    Request("all cores and a part, Volcano", volcano(1, memory=1000, cores=100), {}, [(1000, 100)]),
    Request("no cores booked", hami(1, gpumem=3000), {"no_core_limit": NoCoreLimit.ABSENT}, [(3000, 0)]),
    Request("no cores means all", hami(1, gpumem=3000), {"no_core_limit": NoCoreLimit.WHOLE}, [WHOLE_CARD]),
    Request("no cores of two", volcano(2, memory=500), {"no_core_limit": NoCoreLimit.ABSENT}, [(500, 0)] * 2),
    Request("three slices a card", hami(1, gpumem=3000), {"slices_per_card": 3}, [(3000, 34)]),
    Request("zero percent", hami(1, gpumem_percentage=0, gpucores=5), {}, [WHOLE_CARD]),
    Request("zero MiB", hami(1, gpumem=0, gpucores=5), {}, [WHOLE_CARD]),
    Request("all memory", hami(1, gpumem_percentage=100, gpucores=30), {}, [WHOLE_CARD]),
    Request("all memory in MiB", hami(1, gpumem=WHOLE, gpucores=10), {}, [(WHOLE, 10)]),
    Request("all memory but one MiB", hami(1, gpumem=WHOLE - 1, gpucores=99), {}, [(WHOLE - 1, 99)]),
    Request("99 percent", volcano(1, memory_percentage=99, cores=99), {}, [(PERCENT[99], 99)]),
    Request("1 percent", volcano(1, memory_percentage=1, cores=1), {}, [(PERCENT[1], 1)]),
    Request("a number alone, HAMi", hami(8), {}, [WHOLE_CARD] * 8),
    Request("a number alone, Volcano", volcano(1), {}, [WHOLE_CARD]),
    Request("an init container alone", hami(2, gpumem=2048, gpucores=20), {"init": True}, [(2048, 20)] * 2),
)


@pytest.mark.parametrize("request_", REQUESTS, ids=[each.title for each in REQUESTS])
def test_an_unusual_request_is_recorded_as_what_it_means(
    koordinator: Koordinator, cards: CardNodes, namespace: str, request_: Request
) -> None:
    bound = judged(koordinator, namespace, moved(request_.limits, **request_.options), cards.selector)
    assert shares(bound) == request_.meant


def test_cards_of_one_numa_node_and_cards_by_their_ids(
    koordinator: Koordinator, cards: CardNodes, namespace: str
) -> None:
    together = moved(hami(8), annotations={"nvidia.com/numa-bind": "true"})
    minors = [each["minor"] for each in _record(judged(koordinator, namespace, together, cards.selector))]
    assert {minor // 8 for minor in minors} in ({0}, {1})
    wanted = f"GPU-many-{15 if 0 in minors else 0}"
    named = moved(hami(1), annotations={"nvidia.com/use-gpuuuid": wanted}, device_labels=True)
    named["metadata"]["name"] = "named"
    (one,) = _record(judged(koordinator, namespace, named, cards.selector))
    assert one["id"] == wanted


@pytest.mark.parametrize("asked", OF_HAMI)
def test_a_slice_of_an_npu_is_the_template_that_hamis_user_means(
    koordinator: Koordinator, npus: Pool, namespace: str, asked: tuple[str, int, str]
) -> None:
    model, memory, template = asked
    word = f"huawei.com/{CHIPS[model][0]}"
    bound = judged(koordinator, namespace, moved({word: 1, f"{word}-memory": memory}), npus.selector)
    assert _template(bound) == template
    assert _where(npus, bound) == model


@pytest.mark.parametrize(
    ("model", "template"), [(model, name) for model, listed in TEMPLATES.items() for name in listed]
)
def test_every_template_is_given_to_a_pod_that_has_koordinators_numbers(
    koordinator: Koordinator, npus: Pool, namespace: str, model: str, template: str
) -> None:
    """The translation leaves such a pod as it is."""
    limits = {**_numbers(*TEMPLATES[model][template]), SHARED: "1"}
    raw = a_pod("a", limits, translated=False, schedulerName=SCHEDULER, nodeSelector={MODEL: model})
    assert not translate(raw, Dialect.KOORDINATOR, REGISTRY, TranslationOptions()).edits
    bound = judged(koordinator, namespace, raw, npus.selector)
    assert (_template(bound), _where(npus, bound)) == (template, model)


@pytest.mark.parametrize("model", CHIPS)
def test_whole_npus_are_all_their_cores(koordinator: Koordinator, npus: Pool, namespace: str, model: str) -> None:
    bound = judged(koordinator, namespace, moved({f"huawei.com/{CHIPS[model][0]}": 2}), npus.selector)
    assert sorted(each["minor"] for each in _record(bound)) == [0, 1]
    assert _where(npus, bound) == model


def _record(pod: Object) -> list[Any]:
    found: list[Any] = json.loads(pod["metadata"]["annotations"][RECORD])["gpu"]
    return found


def _template(pod: Object) -> str:
    (one,) = _record(pod)
    return str(one["extension"]["gpuSharedResourceTemplate"])


def _where(npus: Pool, pod: Object) -> str:
    """The model of the node that a pod is on."""
    return list(CHIPS)[int(pod["spec"]["nodeName"].rpartition("-")[2])]
