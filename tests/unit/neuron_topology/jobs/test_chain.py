"""A job that keeps the one that is created once it has completed."""

from __future__ import annotations

import base64
import json
import zlib
from typing import Any

import pytest

from hami_plugins.errors import WireError
from neuron_topology.core.jobs import chain
from neuron_topology.core.jobs.chain import JobOutcome
from tests.unit.neuron_topology.jobs.submitted import a_job, a_task

NEXT, MANIFEST = "hami-plugins.io/next-job", "hami-plugins.io/next-job-manifest"


def a_named_job(name: str, **metadata: Any) -> dict[str, Any]:
    return {**a_job(), "metadata": {"name": name, "namespace": "team", **metadata}}


def packed(found: object) -> str:
    return base64.b64encode(zlib.compress(json.dumps(found).encode())).decode()


def test_a_job_keeps_the_next_one_beside_its_own_annotations() -> None:
    following = a_named_job("train")
    first = chain.keeping(a_named_job("compile", annotations={"own": "1"}), following)
    annotations = first["metadata"]["annotations"]
    assert (annotations["own"], annotations[NEXT]) == ("1", "train")
    assert chain.kept_in(first, "job:") == following
    assert chain.kept_in(chain.keeping(a_named_job("compile"), following), "job:") == following


def test_a_large_gang_is_kept_in_little() -> None:
    """The API server takes 256 KiB of annotations."""
    tasks = [a_task(name=f"worker-{at}") for at in range(1000)]
    first = chain.keeping(a_named_job("compile"), {**a_job(*tasks), "metadata": {"name": "t", "namespace": "team"}})
    assert len(first["metadata"]["annotations"][MANIFEST]) < 64 << 10


def test_a_job_without_a_next_one_keeps_none() -> None:
    assert chain.kept_in(a_named_job("compile"), "job:") is None


@pytest.mark.parametrize(
    "text",
    [
        "%",
        base64.b64encode(b"plain").decode(),
        base64.b64encode(zlib.compress(b"{")).decode(),
        base64.b64encode(zlib.compress(b"{}")[:-1]).decode(),
        base64.b64encode(zlib.compress(b" " * (17 << 20))).decode(),
        packed([]),
        packed({**a_named_job("train"), "kind": "Secret"}),
        packed(a_named_job("another")),
        packed(a_named_job("train", namespace="kube-system")),
    ],
    ids=[
        "no-base64",
        "not-packed",
        "no-json",
        "cut",
        "too-large",
        "no-object",
        "no-job",
        "other-name",
        "other-namespace",
    ],
)
def test_what_is_not_the_job_that_was_kept_is_refused(text: str) -> None:
    first = a_named_job("compile", annotations={NEXT: "train", MANIFEST: text})
    with pytest.raises(WireError, match=r"job team/compile: metadata\.annotations\[.*submit the job again"):
        chain.kept_in(first, "job team/compile:")


@pytest.mark.parametrize(
    ("phase", "outcome"),
    [
        ("Completed", JobOutcome.DONE),
        ("Failed", JobOutcome.FAILED),
        ("Aborted", JobOutcome.FAILED),
        ("Terminated", JobOutcome.FAILED),
        ("Completing", JobOutcome.WAITING),
        ("Restarting", JobOutcome.WAITING),
        ("", JobOutcome.WAITING),
    ],
)
def test_a_job_is_done_when_it_has_completed_and_waited_for_until_it_has_ended(phase: str, outcome: JobOutcome) -> None:
    assert chain.outcome({"status": {"state": {"phase": phase}}}) is outcome
