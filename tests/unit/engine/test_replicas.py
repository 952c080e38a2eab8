"""Which pods are replicas, and what is made of one from what was made of another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

import pytest

from hami_plugins.engine import replicas
from hami_plugins.engine.intake import Rules, take_in
from hami_plugins.engine.registry import Registry
from hami_plugins.model.pods import NodeConstraints, Pod, PodClaim
from hami_plugins.vendors import builtin
from tests import acme
from tests.builders import a_container, a_pod

REGISTRY = Registry([acme.SPEC])
INDEX = "volcano.sh/task-index"
CHANGED: Mapping[str, Any] = {
    "namespace": "other",
    "labels": {"app": "y"},
    "annotations": {"a": "b"},
    "containers": (a_container({"cpu": 1}),),
    "scheduler": "other",
    "node": "node-1",
    "phase": "Running",
    "priority": 1,
    "priority_class": "high",
    "runtime_class": "nvidia",
    "gates": ("a",),
    "terminating": True,
    "init_finished": True,
    "constraints": NodeConstraints(node=None, selector=(("a", "b"),)),
    "neighbours": None,
    "of_group": {"a": "b"},
    "preempts": False,
    "preemptable": False,
    "nominated": "n",
    "disruption": "PreemptionByScheduler",
    "claims": (PodClaim("c"),),
    "native_group": "scheduling.k8s.io/g",
    "template_requests": (("cpu", 1),),
}


def test_names_uids_times_owners_and_numbers_within_a_task_are_all_that_replicas_differ_in() -> None:
    pod = a_pod(annotations={INDEX: "0", "a": "b"})
    other = replace(
        pod,
        name="q",
        uid="u",  # type: ignore[arg-type]
        made_at=7,
        owner="Job/a",
        annotations={INDEX: "1", "a": "b"},
        labels={INDEX: "1"},
    )
    assert replicas.key_of(pod) == replicas.key_of(other)


@pytest.mark.parametrize(
    "name", [each.name for each in fields(Pod) if each.name not in {"name", "uid", "made_at", "owner"}]
)
def test_a_pod_that_differs_in_anything_else_is_no_replica(name: str) -> None:
    pod = a_pod()
    assert replicas.key_of(pod) != replicas.key_of(replace(pod, **{name: CHANGED[name]}))


def test_a_replica_is_taken_in_as_it_would_be_by_itself() -> None:
    registry, rules = builtin(), Rules()
    pod = a_pod(a_container({"nvidia.com/gpu": 1}), annotations={INDEX: "0"})
    other = replace(pod, name="q", owner="Job/a", annotations={INDEX: "1"}, labels={"n": "1"})
    known = take_in(pod, registry, rules)
    assert known.pod != known.submitted
    assert replicas.intake_of(other, known) == take_in(other, registry, rules)


def test_annotations_that_the_webhook_writes_are_written_on_replicas_as_well() -> None:
    pod, other = a_pod(annotations={INDEX: "0"}), a_pod(name="q", annotations={INDEX: "1"})
    known = take_in(pod, REGISTRY, Rules())
    written = replace(known, pod=replace(known.pod, annotations={INDEX: "0", "new": "x"}))
    found = replicas.intake_of(other, written)
    assert found.pod.annotations == {INDEX: "1", "new": "x"}
    assert (found.pod.uid, found.admission.pod, found.submitted) == (other.uid, found.pod, other)


def test_a_refusal_may_name_its_pod_and_is_not_shared() -> None:
    rules = Rules()
    fine = take_in(a_pod(), REGISTRY, rules)
    odd = take_in(a_pod(annotations={"hami.io/device-scoring-weights": "slot"}), REGISTRY, rules)
    denied = take_in(a_pod(a_container({"cpu": -1})), REGISTRY, rules)
    assert [replicas.are_shared(each) for each in (fine, odd, denied)] == [True, False, False]
