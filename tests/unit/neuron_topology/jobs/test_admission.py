"""Jobs that are patched when they are made, as the command patches them."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from hami_plugins.sandbox.apiserver.patches import json_patch
from hami_plugins.wire.admission_review import Allowed, Answer, Denied
from neuron_topology.core.jobs import patch
from neuron_topology.core.jobs.admission import admit
from tests.unit.neuron_topology.jobs.submitted import DRY_RUNS, NEURON, a_container, a_dry_run, a_job, a_task


def allowed(answer: Answer) -> Allowed:
    assert isinstance(answer, Allowed)
    return answer


def refused(answer: Answer) -> Denied:
    assert isinstance(answer, Denied)
    return answer


@pytest.mark.parametrize("file", DRY_RUNS, ids=lambda file: file.stem)
def test_every_job_of_torchx_becomes_what_the_command_makes_of_it(file: Path) -> None:
    raw = a_dry_run(file)
    before = copy.deepcopy(raw)
    answer = allowed(admit(raw))
    assert answer.operations
    assert json_patch(raw, list(answer.operations)) == patch.patch(raw).job
    assert raw == before


def test_a_job_that_is_patched_already_and_whatever_is_no_job_for_neuron_are_left_alone() -> None:
    patched = patch.patch(a_job()).job
    plain = a_job(a_task(a_container({"cpu": 1})))
    for raw in (patched, plain, {"kind": "Job", "apiVersion": "batch/v1", "spec": {}}, {}):
        assert allowed(admit(raw)) == Allowed()


def test_what_is_left_to_the_author_is_a_warning() -> None:
    answer = allowed(admit(a_job(a_task(a_container({NEURON: 7})))))
    assert any("7" in warning for warning in answer.warnings)


@pytest.mark.parametrize("metadata", [{"name": "train"}, {"generateName": "train"}, {}, "nonsense"])
def test_a_job_that_no_node_can_ever_meet_is_refused_with_the_place(metadata: object) -> None:
    answer = refused(admit({**a_job(a_task(a_container({NEURON: 17}))), "metadata": metadata}))
    assert answer.code == 422
    assert "17" in answer.reason
    assert answer.reason.startswith("job train:" if isinstance(metadata, dict) and metadata else "job :")


def test_a_job_that_is_not_shaped_like_one_is_refused() -> None:
    assert "tasks" in refused(admit({**a_job(), "spec": {"tasks": "none"}})).reason


def test_a_job_that_says_how_long_it_runs_has_to_say_it_so_that_it_can_be_read() -> None:
    key = "hami-plugins.io/expected-duration"
    job = a_job()

    def saying(written: str, job: dict[str, Any] = job) -> dict[str, Any]:
        return {**job, "metadata": {**job["metadata"], "annotations": {key: written}}}

    allowed(admit(saying("6h")))
    answer = refused(admit(saying("soon")))
    assert f"metadata.annotations[{key}]" in answer.reason
    assert "'soon' is not a duration; write 90m" in answer.reason
    allowed(admit(saying("soon", a_job(a_task(a_container({"cpu": 1}))))))
