"""Manifests that are right: the examples we ship, upstream's own, and what the real Volcano was given."""

import gzip
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from hami_plugins import examples, vet
from hami_plugins.inputs import fleets
from hami_plugins.inputs.list_reader import snapshot_of
from hami_plugins.vendors import builtin
from hami_plugins.vet import cluster_objects
from hami_plugins.vet.cluster_objects import ClusterObjects
from tests import raw_objects
from tests.golden import cases

SCENARIOS = Path(__file__).parents[2] / "golden" / "scenarios"


def complaints(text: str, *, fleet: str = "") -> set[tuple[str, str]]:
    """Errors and warnings, as rule and object."""
    registry = builtin()
    snapshot = None
    if fleet:
        nodes = fleets.nodes_of(fleets.parse(examples.fleet_text(fleet), source=fleet))
        snapshot = snapshot_of(nodes, registry)
    sources = vet.read(text, source="f")
    found = vet.vet(sources.documents, registry, None, snapshot, unreadable=sources.unreadable)
    return {(each.rule, each.object) for each in found if each.severity.fails}


SHIPPED_ON_PURPOSE: Mapping[str, set[tuple[str, str]]] = {
    "04-torchx-smoke-neurondevice": {("HP102", "Job default/smoke-lltf50khzltrhd")},
    "14-giant": {("HP803", "Pod research/giant")},
    "15-held-at-the-gate": {("HP802", "Pod lab/sweep")},
}


@pytest.mark.parametrize("name", examples.workload_names())
def test_shipped_workloads_are_right_but_for_those_that_shall_not_fit(name: str) -> None:
    assert complaints(examples.workload_text(name), fleet="mixed") == SHIPPED_ON_PURPOSE.get(name, set())


UPSTREAM = {"mlu/default_use": {"HP102"}, "docexample-007": {"HP309"}}
"""HAMi's MLU example names resources that HAMi does not read; its documents ask for two Neuron devices."""


def manifest(case: cases.Case) -> str:
    pods = case.given.get("pods") or [[{"limits": case.given["limits"]}]]
    return "---\n".join(yaml.safe_dump(a_pod(at, each, case)) for at, each in enumerate(pods))


def a_pod(at: int, containers: list[dict[str, Any]], case: cases.Case) -> dict[str, Any]:
    asking = [raw_objects.container(f"container-{number}", **each) for number, each in enumerate(containers)]
    return raw_objects.pod(f"pod-{at}", *asking, metadata={"annotations": case.given.get("annotations") or {}})


@cases.each("hami-vendors/examples.yaml")
def test_upstreams_examples_are_right_but_for_those_with_wrong_names(case: cases.Case) -> None:
    assert {rule for rule, _ in complaints(manifest(case))} == UPSTREAM.get(case.given["manifest"], set())


@cases.each("hami-vendors/doc-examples.yaml")
def test_examples_of_upstreams_documents_are_right(case: cases.Case) -> None:
    assert {rule for rule, _ in complaints(manifest(case))} == UPSTREAM.get(case.id, set())


SUBMITTED_ON_PURPOSE: Mapping[str, set[tuple[str, str]]] = {
    "03-request-combos": {("HP205", "Pod default/number-zero"), ("HP206", "Pod default/cores-only")},
    "06-percentage-configured-not-advertised": {("HP701", "Pod default/half")},
    "12-two-containers-no-card": {("HP311", f"Pod default/{name}") for name in ("ok", "split", "cores")},
    "21-two-bare-gangs-in-order": {("HP722", "PodGroup default/g1"), ("HP722", "PodGroup default/g2")},
    "24-gang-missing-member": {("HP705", "PodGroup default/g"), ("HP722", "PodGroup default/g")},
    "54-vgpu-mode": {("HP411", "Pod default/want-mps")},
    "57-other-scheduler": {("HP505", "Pod default/theirs"), ("HP505", "Pod default/custom")},
    "69-gang-and-selectors": {("HP722", "PodGroup default/h"), ("HP722", "PodGroup default/any")},
    "81-pending-gang-before": {("HP722", "PodGroup default/duo")},
    "83-gang-after-room": {("HP722", "PodGroup default/g")},
    "108-member-that-succeeded": {("HP704", "Pod default/g1"), ("HP704", "Pod default/g2")},
    "109-member-that-failed": {("HP704", "Pod default/g1"), ("HP704", "Pod default/g2")},
    "114-init-containers-one-after-another": {("HP722", f"PodGroup default/{name}") for name in ("g", "h")},
    "115-priority-of-group-and-pods": {("HP722", "PodGroup default/g")},
    "120-gang-tried-first-keeps-cards": {("HP722", "PodGroup default/g3")},
    "207-preempt-for-a-gang": {("HP722", "PodGroup default/g")},
    "208-preempt-a-gang-as-a-whole": {("HP722", "PodGroup default/g")},
    "209-preempt-for-a-gang-on-two-nodes": {("HP722", "PodGroup default/g")},
    "210-preempt-for-half-a-gang": {("HP722", "PodGroup default/g")},
}


@pytest.mark.parametrize("folder", sorted(SCENARIOS.iterdir()), ids=lambda folder: folder.name)
def test_submissions_to_the_real_volcano_are_right_but_for_those_it_does_not_place_as_asked(folder: Path) -> None:
    text = (folder / "submit.yaml").read_text(encoding="utf-8")
    assert complaints(text) == SUBMITTED_ON_PURPOSE.get(folder.name, set())


AILING_ON_PURPOSE: Mapping[str, set[tuple[str, str]]] = {
    "45-unhealthy-card": {("HP735", "Node n1")},
    "72-notready-without-taint": {("HP734", "Node n2")},
    "81-pending-gang-before": {("HP722", "PodGroup default/big"), ("HP726", "PodGroup default/big")},
}


@pytest.mark.parametrize("folder", sorted(SCENARIOS.iterdir()), ids=lambda folder: folder.name)
def test_clusters_of_the_real_volcano_are_right_but_for_those_with_a_fault(folder: Path) -> None:
    dump, registry = json.loads(gzip.decompress((folder / "before.json.gz").read_bytes())), builtin()
    cluster = ClusterObjects(snapshot_of([dump], registry), tuple(cluster_objects.of(dump, "before.json")))
    found = {(each.rule, each.object) for each in vet.vet((), registry, None, cluster) if each.severity.fails}
    assert found == AILING_ON_PURPOSE.get(folder.name, set())
