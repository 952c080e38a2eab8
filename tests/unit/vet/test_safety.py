"""How bad a record in a manifest is: only where a scheduler would believe it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import yaml

from hami_plugins import vet
from hami_plugins.vendors import builtin
from hami_plugins.vet import VetFinding, VetSeverity

RECORD = "scheduling.koordinator.sh/device-allocated"
HINT = "internal.scheduling.koordinator.sh/scheduling-hint"
OLD_HINT = "scheduling.koordinator.sh/scheduling-hint"
VALUE = (
    '{"gpu":[{"minor":0,"resources":{"koordinator.sh/gpu-core":"50","koordinator.sh/gpu-memory":"16Gi",'
    '"koordinator.sh/gpu-memory-ratio":"50"},"id":"GPU-1"}]}'
)


def found(limits: Mapping[str, object], annotations: Mapping[str, str], **spec: Any) -> VetFinding:
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "annotations": annotations},
        "spec": {"containers": [{"name": "main", "resources": {"limits": limits}}], **spec},
    }
    documents = vet.read(yaml.safe_dump(body), source="f").documents
    (finding,) = (each for each in vet.vet(documents, builtin()) if each.rule == "HP602")
    return finding


KOORDINATOR = {"koordinator.sh/gpu": 100}
DESIGNATED = '{"nodeNames":["n1"],"extensions":{"DeviceShare":{}}}'


@pytest.mark.parametrize(
    ("limits", "annotations", "spec", "severity"),
    [
        pytest.param(KOORDINATOR, {}, {"schedulerName": "koord-scheduler"}, VetSeverity.NOTE, id="overwritten"),
        pytest.param(KOORDINATOR, {HINT: "no json"}, {}, VetSeverity.NOTE, id="unreadable hint"),
        pytest.param(KOORDINATOR, {HINT: '["DeviceShare"]'}, {}, VetSeverity.NOTE, id="hint that is no object"),
        pytest.param(KOORDINATOR, {HINT: '{"nodeNames":["n1"]}'}, {}, VetSeverity.NOTE, id="hint of nodes alone"),
        pytest.param(
            KOORDINATOR, {HINT: '{"extensions":{"Other":{}}}'}, {}, VetSeverity.NOTE, id="hint of another plugin"
        ),
        pytest.param(KOORDINATOR, {HINT: DESIGNATED}, {}, VetSeverity.ERROR, id="cards designated by a hint"),
        pytest.param(KOORDINATOR, {OLD_HINT: DESIGNATED}, {}, VetSeverity.ERROR, id="by the older key"),
        pytest.param(KOORDINATOR, {}, {"nodeName": "n1"}, VetSeverity.ERROR, id="a pod with a node counts"),
        pytest.param({"nvidia.com/gpu": 1}, {}, {}, VetSeverity.ERROR, id="counts when another scheduler binds it"),
    ],
)
def test_koordinator_believes_a_record_only_of_pods_with_a_node_or_designated_cards(
    limits: dict[str, object], annotations: dict[str, str], spec: dict[str, Any], severity: VetSeverity
) -> None:
    assert found(limits, {RECORD: VALUE, **annotations}, **spec).severity is severity


def test_a_note_says_that_koordinator_overwrites_the_record() -> None:
    assert "Koordinator's scheduler ignores it and writes its own" in found(KOORDINATOR, {RECORD: VALUE}).message


@pytest.mark.parametrize("key", ["hami.io/vgpu-devices-allocated", "volcano.sh/vgpu-ids-new"])
def test_records_of_hami_and_volcano_are_errors(key: str) -> None:
    assert found({"nvidia.com/gpu": 1}, {key: "GPU-1,NVIDIA,3000,30:;"}).severity is VetSeverity.ERROR


def test_a_long_value_is_cut_between_its_members() -> None:
    message = found(KOORDINATOR, {RECORD: VALUE}).message
    assert f'{RECORD}={{"gpu":[{{"minor":0, ... ({len(VALUE)} characters) is a record' in message
    short = found({"nvidia.com/gpu": 1}, {"hami.io/vgpu-node": "gpu-1"}).message
    assert "annotation hami.io/vgpu-node=gpu-1 is a record" in short


def test_a_long_value_without_members_is_cut_where_it_has_to_be() -> None:
    message = found({"nvidia.com/gpu": 1}, {"hami.io/vgpu-node": "n" * 70}).message
    assert f"hami.io/vgpu-node={'n' * 60} ... (70 characters) is a record" in message
