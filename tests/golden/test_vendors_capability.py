"""What vendors can do, as the reference's table has it: each cell is tried on the vendor."""

from collections.abc import Callable
from dataclasses import replace

from hami_plugins.engine.demand import request_of
from hami_plugins.engine.fit import Fitter, RequestRefusal
from hami_plugins.engine.mutate import WebhookSettings, admit
from hami_plugins.errors import InvalidRequestError
from hami_plugins.model.nodes import NodeShape
from hami_plugins.model.policy import DEFAULT_POLICY
from hami_plugins.model.requests import DeviceRequest, Percent
from hami_plugins.model.units import CoreShare, VendorName
from hami_plugins.model.vendor import ContainerRequest, VendorSpec
from hami_plugins.output.vendors import features
from hami_plugins.vendors import ascend, builtin
from tests import builders
from tests.golden import cases

REGISTRY = builtin()

ROWS = {
    "NVIDIA hami-core": "NVIDIA",
    "NVIDIA MIG": "NVIDIA",
    "Ascend hard split": "Ascend910B3",
    "Ascend soft split": "Ascend910B3",
    "Iluvatar": "MR-V100",
    "kunlun XPU": "kunlun",
    "kunlun vXPU": "XPU",
    "Enflame GCU": "GCU",
    "Enflame DRS": "Enflame",
}

DEVIATIONS: dict[str, dict[str, tuple[str, bool]]] = {
    "capability-004": {"core_isolation": ("a template's cores come with it, nobody asks for them", False)},
    "capability-007": {"multi_card_split": ("all cores of each card, but a part of its memory", True)},
    "capability-012": {"core_isolation": ("cores follow from the memory, nobody asks for them", False)},
}
"""Cells that are more than yes or no: why, and what we count them for."""

NO = ("no", "no,", "no:", "whole")
"""How a cell begins that says no; who gives whole cards or dies does not split them."""

CARD_MEMORY = {"Mthreads": 49_152}
"""A card of another size than a Kunlun XPU, in MiB."""


@cases.each("hami-vendors/capability.yaml")
def test_vendor_can_do_what_its_row_says(case: cases.Case) -> None:
    backend = case.given["backend"]
    spec = REGISTRY[VendorName(ROWS.get(backend, backend))]
    annotations = {ascend.POD_MODE_KEY: ascend.SOFT} if backend == "Ascend soft split" else {}
    for column, text in case.expect.items():
        if column == "template":
            continue
        _, wanted = DEVIATIONS.get(case.id, {}).get(column, ("", text.split()[0] not in NO))
        assert CELLS[column](spec, annotations) == wanted, column


FACTS = {"memory_isolation": 0, "core_isolation": 1, "uuid_filter": 2, "type_filter": 3, "numa": 4, "topology": 5}
"""Where the columns are among the features that ``hami-plugins vendors`` prints."""

PRINTED: dict[tuple[str, str], str] = {
    ("capability-012", "core_isolation"): "unknown",  # derived from memory; no page says that anything enforces it
    ("capability-016", "memory_isolation"): "yes",  # of the driver, says HAMi's page; the scheduler books none
}
"""Cells that are printed otherwise than the table has them, which is about the scheduler alone."""


@cases.each("hami-vendors/capability.yaml")
def test_the_printed_features_are_those_of_the_table(case: cases.Case) -> None:
    backend = case.given["backend"]
    printed = features(REGISTRY[VendorName(ROWS.get(backend, backend))])
    for column, at in FACTS.items():
        text = case.expect[column]
        wanted = "no" if text.split()[0] in NO else "yes"
        if column in {"memory_isolation", "core_isolation"} and wanted == "no":
            wanted = "whole"
        wanted = PRINTED.get((case.id, column), wanted)
        assert printed[at].feature.support.value == wanted, column


def _memory(spec: VendorSpec, annotations: dict[str, str]) -> bool:
    return bool(spec.resources.memory)


def _cores(spec: VendorSpec, annotations: dict[str, str]) -> bool:
    """A pod may name cores: they are asked of the card, and the webhook lets them pass."""
    names = spec.resources
    if not names.cores:
        return False
    pod = builders.a_pod(builders.a_container({names.count: 1, names.cores: 2}), annotations=annotations)
    return admit(pod, REGISTRY, WebhookSettings()).allowed


def _ids(spec: VendorSpec, annotations: dict[str, str]) -> bool:
    return bool(spec.keys.use_ids and spec.keys.avoid_ids)


def _models(spec: VendorSpec, annotations: dict[str, str]) -> bool:
    return bool(spec.keys.use_models and spec.keys.avoid_models)


def _numa(spec: VendorSpec, annotations: dict[str, str]) -> bool:
    """NUMA binding, or sets of cards that keep to one side of the machine."""
    return spec.fitting.binds_numa or spec.vendor == "Kunlunxin"


def _topology(spec: VendorSpec, annotations: dict[str, str]) -> bool:
    return spec.fitting.select is not None or spec.scoring.score_node is not None


def _several_slices(spec: VendorSpec, annotations: dict[str, str]) -> bool:
    """Two cards with a part of each fit on a node of two cards that are in use."""
    names = spec.resources
    if not names.memory:
        return False
    memory = {"NVIDIA": 1024, "XPU": 24_576}.get(spec.name, 16)
    container = builders.a_container({names.count: 2, names.memory: memory})
    admitted = admit(builders.a_pod(container, annotations=annotations), REGISTRY, WebhookSettings())
    if not admitted.allowed:
        return False
    try:
        request = request_of(spec, admitted.pod.containers[0], admitted.pod)
    except InvalidRequestError:
        return False
    return request is not None and request.count == 2 and not _takes_whole_cards(spec, request)


def _takes_whole_cards(spec: VendorSpec, request: DeviceRequest) -> bool:
    memory = CARD_MEMORY.get(spec.name, 98_304)
    card = builders.a_device(vendor=spec.name, slots=16, memory=memory, mode=ascend.SOFT)
    cards = [replace(card, index=at) for at in range(2)]
    fitter = Fitter.of(spec, replace(request, cores=CoreShare(0)), DEFAULT_POLICY)
    ask = ContainerRequest(
        fitter.request, DEFAULT_POLICY, NodeShape(tuple(cards)), (), spec.fitting.cores_of, spec.fitting.memory_of
    )
    found = fitter.fit([builders.a_candidate(each)._replace(position=at) for at, each in enumerate(cards)], ask)
    if isinstance(found, RequestRefusal) or isinstance(request.memory, Percent):
        return True
    return any(share.memory >= card.memory for share in found)


CELLS: dict[str, Callable[[VendorSpec, dict[str, str]], bool]] = {
    "memory_isolation": _memory,
    "core_isolation": _cores,
    "uuid_filter": _ids,
    "type_filter": _models,
    "numa": _numa,
    "topology": _topology,
    "multi_card_split": _several_slices,
}
