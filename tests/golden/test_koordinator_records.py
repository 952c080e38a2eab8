"""Koordinator's annotations on pods besides its record, and its counting of network cards and FPGAs, against the
vectors.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from hami_plugins.engine import koordinator
from hami_plugins.wire import koordinator_hints
from hami_plugins.wire.koordinator import CORE, FPGA, RATIO, RDMA, SHARED
from koordinator_adapter.core.refusals import cause_of
from koordinator_adapter.core.translation.vocabulary import HINT, ISOLATION
from tests.golden.cases import Case, each, of
from tests.unit.koordinator_adapter.written import moved, pod

SHARE = {SHARED: 1, RATIO: 50, CORE: 30}
DEVICES = {"rdma": RDMA, "fpga": FPGA}
WITHOUT_KEYS = ("vendor-141a", "vendor-141b", "vendor-141c", "vendor-143a", "vendor-143b", "vendor-143c")
"""Refusals of the scheduler before it writes anything, and its lock on the node."""

DEVIATIONS = dict.fromkeys(
    WITHOUT_KEYS, "what only the scheduler does before it binds a pod: nobody here writes these annotations"
)


@each("koordinator/vendor-annotations.yaml", without=WITHOUT_KEYS)
def test_what_the_scheduler_writes_for_device_plugins_does_not_come_along(case: Case) -> None:
    """A new pod with the record of another one would be given that one's cards by some device plugins."""
    expect = case.expect
    keys = [*expect.get("annotations", ()), *expect.get("annotation_keys", ()), *expect.get("labels", ())]
    keys += [expect["annotation_key"]] if "annotation_key" in expect else []
    assert keys
    annotations = {key: "x" for key in keys if key not in expect.get("labels", {})}
    raw = pod(SHARE, labels={ISOLATION: "HAMi-core", **expect.get("labels", {})}, annotations=annotations)
    raw["metadata"]["annotations"] = {**annotations, "mine": "x"}
    metadata = moved(raw, "hami")["metadata"]
    assert metadata.get("annotations") == {"mine": "x"}
    assert not metadata.get("labels")


def hinted(case: Case) -> koordinator_hints.Hint:
    """The hint of a vector, as it is read."""
    return koordinator_hints.decode(json.dumps({case.given["type"]: case.given["hint"]}))[case.given["type"]]


@each("koordinator/rdma-fpga.yaml", without=("rdma-none", "fpga-none"))
def test_numbers_of_network_cards_are_legal_and_keep_their_meaning(case: Case) -> None:
    name, amount = DEVICES[case.given["type"]], case.given["requested"]
    assert isinstance(koordinator.validated({name: amount}), int)
    hint = hinted(case)
    assert hint.strategy == koordinator_hints.REQUESTS_AS_COUNT
    assert case.expect == {"count": amount, "each": 100 if hint.exclusive == "DeviceLevel" else 1}
    annotations = {HINT: json.dumps({case.given["type"]: case.given["hint"]})}
    slices: dict[str, Any] = {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 1000, "nvidia.com/gpucores": 10, name: amount}
    becomes = moved(pod(slices, annotations=annotations), "koordinator")
    assert becomes["metadata"]["annotations"] == annotations
    assert becomes["spec"]["containers"][0]["resources"]["limits"][name] == amount


@pytest.mark.parametrize("name", ["rdma-none", "fpga-none"])
def test_a_cluster_without_such_devices_is_explained(name: str) -> None:
    case = next(case for case in of("koordinator/rdma-fpga.yaml") if case.id == name)
    cause = cause_of(f"0/1 nodes are available: 1 {case.expect['error']}.")
    assert cause is not None
    assert cause.remedy
