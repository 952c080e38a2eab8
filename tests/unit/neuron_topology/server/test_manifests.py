"""What is installed in the API server for Neuron: webhooks, of Volcano Jobs as well where they are wanted."""

from __future__ import annotations

from typing import Any

import pytest

from hami_plugins.sandbox.apiserver.conditions import compiled
from tests.unit.allocator.products import target, webhooks

TARGET = target(namespace="allocators")


def hooks(**more: Any) -> dict[str, dict[str, Any]]:
    """The webhooks by the first word of their name."""
    return {each["name"].partition(".")[0]: each for each in webhooks(TARGET, **more)["webhooks"]}


def a_job(*limits: dict[str, Any] | None) -> dict[str, Any]:
    """A Volcano Job with a task of one container for each; ``None`` is a container without resources."""
    containers = [{"name": "c"} if each is None else {"name": "c", "resources": {"limits": each}} for each in limits]
    return {"spec": {"tasks": [{"template": {"spec": {"containers": [each]}}} for each in containers]}}


def test_jobs_are_patched_only_where_that_is_wanted() -> None:
    assert list(hooks()) == ["pods", "placed", "marked", "unmarked"]
    assert list(hooks(jobs=True)) == ["pods", "placed", "marked", "unmarked", "jobs"]
    assert list(hooks(jobs=True, marked_only=True)) == ["pods", "placed", "marked", "jobs"]


def test_no_job_waits_for_the_server() -> None:
    jobs = hooks(jobs=True)["jobs"]
    assert (jobs["failurePolicy"], jobs["sideEffects"]) == ("Ignore", "None")
    assert [(each["resources"], each["operations"]) for each in jobs["rules"]] == [(["jobs"], ["CREATE"])]


def test_jobs_in_exempt_namespaces_and_in_that_of_the_server_are_not_patched() -> None:
    (expression,) = hooks(jobs=True, exempt=("volcano-system",))["jobs"]["namespaceSelector"]["matchExpressions"]
    assert (expression["operator"], expression["values"]) == ("NotIn", ["volcano-system", "allocators"])


@pytest.mark.parametrize(
    ("job", "asked"),
    [
        (a_job({"aws.amazon.com/neuron": "1"}), True),
        (a_job({"aws.amazon.com/neuroncore": "2"}), True),
        (a_job({"cpu": "1"}, {"aws.amazon.com/neuron": "1"}), True),
        (a_job({"nvidia.com/gpu": "1"}), False),
        (a_job(None), False),
        (a_job(), False),
        ({"spec": {}}, False),
        ({"spec": {"tasks": [{}, {"template": {}}]}}, False),
    ],
    ids=["devices", "cores", "the second task", "other devices", "no limits", "no tasks", "empty", "no template"],
)
def test_the_server_is_asked_about_jobs_with_a_container_that_asks_for_neuron(job: Any, asked: bool) -> None:
    (condition,) = hooks(jobs=True)["jobs"]["matchConditions"]
    assert compiled(condition["expression"]).holds({"object": job}) is asked
