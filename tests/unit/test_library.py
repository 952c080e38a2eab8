"""The library: what programs call, from text to answers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hami_plugins import api, examples
from hami_plugins.errors import ManifestError
from hami_plugins.inputs import fleets
from hami_plugins.plan import Stage
from tests import raw_objects

POD = """
apiVersion: v1
kind: Pod
metadata: {name: one, namespace: team}
spec:
  containers:
    - {name: main, image: app, resources: {limits: {nvidia.com/gpu: 1, nvidia.com/gpumem: 20000}}}
"""
GIANT = POD.replace("20000", "200000")


def raw_pod(memory: int) -> dict[str, object]:
    return raw_objects.pod(
        "one", raw_objects.container(limits={"nvidia.com/gpu": "1", "nvidia.com/gpumem": str(memory)})
    )


def test_every_name_of_the_surface_is_there() -> None:
    for name in api.__all__:
        assert getattr(api, name) is not None
    assert set(api.__all__) == set(dir(api))


def test_an_unknown_name_is_an_error_that_lists_the_known_ones() -> None:
    with pytest.raises(AttributeError, match=r"no 'schedule'.*load_snapshot"):
        _ = api.schedule


def test_a_plan_is_two_calls() -> None:
    plan = api.plan(api.load_fleet("h100x8"), POD)
    assert [(pod.pod.full_name, pod.stage) for pod in plan.pods] == [("team/one", Stage.PLACED)]


@pytest.mark.parametrize("form", ["text", "bytes", "objects", "two documents"])
def test_a_snapshot_is_read_from_whatever_people_have(form: str) -> None:
    nodes: list[Any] = list(fleets.nodes_of(fleets.parse(examples.fleet_text("t4x1"), source="t4x1")))
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": nodes})
    listing = {
        "text": text,
        "bytes": text.encode(),
        "objects": nodes,
        "two documents": "".join(json.dumps({"kind": "List", "items": [node]}) + "\n" for node in nodes),
    }[form]
    snapshot = api.load_snapshot(listing)
    assert [entry.name for entry in snapshot.nodes] == sorted(node["metadata"]["name"] for node in nodes)


def test_bytes_that_are_no_text_are_an_error() -> None:
    with pytest.raises(ManifestError, match="neither JSON nor UTF-8"):
        api.load_snapshot(b"\xff\xfe\x00")


def test_a_refused_pod_is_decided_and_relaxed() -> None:
    snapshot = api.load_fleet("h100x8")
    intake = api.admit(raw_pod(200_000))
    decider = api.Decider(api.builtin())
    assert isinstance(api.decide(snapshot, intake, decider), api.Refused)
    assert api.relax(snapshot, intake, decider)
    fits = api.admit(raw_pod(1_000))
    assert isinstance(api.decide(snapshot, fits), api.Placed)
    assert api.relax(snapshot, fits) == ()
