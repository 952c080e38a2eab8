"""What running pods hold, in the words of the scheduler that comes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hami_plugins.model.dialect import Dialect
from koordinator_adapter.core.migration.steps import StepKind
from tests.unit.koordinator_adapter.migration.cluster import HAMI_RECORD, RECORD, Raw, a_cluster, a_pod
from tests.unit.koordinator_adapter.migration.moving import left, plan, steps

VOLCANO_RECORD = "volcano.sh/vgpu-ids-new"
NAME = "pod/ml/p"
KOORDINATORS = {"minor": 1, "id": "GPU-1", "resources": {"koordinator.sh/gpu-memory": "8Gi"}}
OF_KOORDINATOR = {RECORD: json.dumps({"gpu": [KOORDINATORS]})}


def device() -> Raw:
    (found,) = (raw for raw in a_cluster() if raw["kind"] == "Device")
    return found


def holding(annotations: Raw | None = None, **changes: Any) -> Raw:
    """A running pod with these annotations; by default HAMi's record of a part of a card."""
    raw = a_pod("p", "GPU-1", **changes)
    if annotations is not None:
        raw["metadata"]["annotations"] = annotations
    return raw


def written(pod: Raw, target: Dialect, *more: Raw) -> dict[str, object]:
    """The annotations that the one step writes; empty for none."""
    found = plan([pod, *more], target, records_only=True)
    assert left(found) == {}
    assert {each.kind for each in found.steps} <= {StepKind.RECORD}
    return {str(change.path[-1]): change.after[0] for step in found.steps for change in step.changes}


def test_koordinator_is_told_what_hami_gave_out() -> None:
    record = written(holding(), Dialect.KOORDINATOR, device())[RECORD]
    assert isinstance(record, str)
    (card,) = json.loads(record)["gpu"]
    assert (card["minor"], card["id"], card["resources"]["koordinator.sh/gpu-memory"]) == (1, "GPU-1", "8Gi")


@pytest.mark.parametrize(
    ("annotations", "target", "becomes"),
    [
        (
            {VOLCANO_RECORD: "GPU-1,NVIDIA,8192,40:"},
            Dialect.HAMI,
            {HAMI_RECORD: "GPU-1,NVIDIA,8192,40:;", "hami.io/vgpu-node": "gpu-1"},
        ),
        (
            None,
            Dialect.VOLCANO,
            {VOLCANO_RECORD: "GPU-1,NVIDIA,8192,40:", "volcano.sh/vgpu-node": "gpu-1"},
        ),
        (
            OF_KOORDINATOR,
            Dialect.HAMI,
            {HAMI_RECORD: "GPU-1,NVIDIA,8192,0:;", "hami.io/vgpu-node": "gpu-1"},
        ),
    ],
    ids=["Volcano to HAMi", "HAMi to Volcano", "Koordinator to HAMi"],
)
def test_hami_and_volcano_are_told_with_the_node(annotations: Raw | None, target: Dialect, becomes: Raw) -> None:
    assert written(holding(annotations), target, device()) == becomes


def test_koordinators_record_is_read_without_its_device_object() -> None:
    assert HAMI_RECORD in written(holding(OF_KOORDINATOR), Dialect.HAMI)


def test_what_an_annotation_said_before_is_kept_for_the_way_back() -> None:
    raw = holding()
    raw["metadata"]["annotations"]["volcano.sh/vgpu-node"] = "elsewhere"
    (step,) = plan([raw], Dialect.VOLCANO, records_only=True).steps
    assert {each.path[-1]: each.before for each in step.changes} == {
        "volcano.sh/vgpu-node": ("elsewhere",),
        VOLCANO_RECORD: (),
    }


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_has_ended_holds_nothing(phase: str) -> None:
    assert written({**holding(), "status": {"phase": phase}}, Dialect.KOORDINATOR, device()) == {}


def test_a_pod_that_waits_holds_nothing() -> None:
    raw = holding()
    del raw["spec"]["nodeName"]
    assert written(raw, Dialect.KOORDINATOR, device()) == {}


def test_a_pod_that_the_target_knows_or_that_holds_no_cards_is_not_touched() -> None:
    assert written(holding(), Dialect.HAMI) == {}
    assert written(holding({}), Dialect.KOORDINATOR, device()) == {}


@pytest.mark.parametrize(
    ("pod", "words"),
    [
        (holding(node="gpu-9"), "node gpu-9 has no Device object; publish its cards first"),
        (holding({HAMI_RECORD: "GPU-1,NVIDIA,much,40:;"}), HAMI_RECORD),
        ({**holding(), "spec": 7}, "spec"),
    ],
    ids=["no cards published", "a record that means nothing", "a pod that cannot be read"],
)
def test_a_pod_whose_cards_cannot_be_told_is_named_and_hides_no_other(pod: Raw, words: str) -> None:
    found = plan([pod, a_pod("other", "GPU-0"), device()], records_only=True)
    assert words in left(found)[NAME]
    assert steps(found) == ["pod/ml/other"]
    assert found.refused


@pytest.mark.parametrize(
    ("word", "node", "told"),
    [
        ("Ascend910B3", "gpu-1", True),
        ("Vastai", "gpu-1", True),
        ("Ascend910B3", "gpu-9", True),
        ("Vastai", "gpu-9", False),
    ],
)
def test_cards_that_koordinator_would_give_out_again_and_has_no_words_for_are_named(
    word: str, node: str, *, told: bool
) -> None:
    raw = holding({f"hami.io/{word}-devices-allocated": f"A-0,{word},1000,0:;"}, node=node)
    found = plan([raw, device()], records_only=True)
    assert (NAME in left(found)) is told
    assert steps(found) == []
    assert left(plan([raw, device()], Dialect.VOLCANO, records_only=True)) == {}
