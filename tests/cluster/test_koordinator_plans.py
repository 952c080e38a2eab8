"""What a plan says of pods in Koordinator's words, and what the real Koordinator then does."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import yaml

from hami_plugins import library
from hami_plugins.engine.intake import Rules
from hami_plugins.engine.policies import PolicyDefaults
from hami_plugins.kube.client import connect
from hami_plugins.plan import Planner, Stage
from hami_plugins.vendors import builtin
from hami_plugins.wire.koordinator import ALLOCATED_KEY, CORE, GPU, MEMORY, RATIO, SHARED
from tests import raw_objects
from tests.cluster.api import ApiError
from tests.cluster.koordinator import SCHEDULER, Koordinator
from tests.cluster.koordinator_adapter import ISOLATION, Adapter, CardNodes

PLANNER = Planner(builtin(), Rules(policies=PolicyDefaults(koordinator="binpack")))

PODS: tuple[Mapping[str, str], ...] = (
    {SHARED: "1", CORE: "50", RATIO: "50"},
    {SHARED: "1", CORE: "30", RATIO: "30"},
    {SHARED: "2", CORE: "20", MEMORY: "4Gi"},
    {GPU: "100"},
    {SHARED: "2", CORE: "120", RATIO: "100"},
    {SHARED: "1", CORE: "40", MEMORY: "8Gi"},
    {SHARED: "1", MEMORY: "1Gi"},
    {CORE: "50"},
    {GPU: "150"},
    {SHARED: "3", CORE: "3", RATIO: "3"},
    {SHARED: "1", CORE: "5", MEMORY: "30Gi"},
)
"""One after another, on one node of two cards."""


@pytest.fixture
def cards(koordinator: Koordinator) -> Iterator[CardNodes]:
    """One node of two cards, published."""
    with Adapter(koordinator), CardNodes(koordinator) as made:
        made.wait_summed(made.add(), 200)
        yield made


def a_pod(name: str, limits: Mapping[str, str], nodes: CardNodes) -> dict[str, Any]:
    return raw_objects.pod(
        name,
        raw_objects.container(limits=limits, requests=limits, image="i"),
        metadata={"labels": dict(ISOLATION)},
        scheduler=SCHEDULER,
        nodeSelector={**nodes.selector, **ISOLATION},
        tolerations=[{"operator": "Exists"}],
        terminationGracePeriodSeconds=0,
    )


def _expected(words: str) -> str:
    """The scheduler's part of a refusal: this project's adds a remedy, and counts what Koordinator's webhook would have
    added."""
    told = words.partition("Koordinator: ")[2] or words.partition(": ")[2]
    return told.partition("; ")[0].replace(SHARED, "")


def words_of(text: str) -> set[str]:
    """The words of a sentence; names in brackets come in no order."""
    return {word.strip("[].,") for word in text.split()}


def test_pods_go_where_a_plan_says_with_the_record_that_it_prints_or_are_refused_as_it_says(
    koordinator: Koordinator, cards: CardNodes, namespace: str
) -> None:
    reader = connect(kubeconfig=str(koordinator.plane.admin_kubeconfig))
    wrong: list[Any] = []
    for number, limits in enumerate(PODS):
        name = f"p{number}"
        pod = a_pod(name, limits, cards)
        told = {**pod, "metadata": {**pod["metadata"], "namespace": namespace}}
        (found,) = library.plan(library.live_snapshot(reader, builtin()), yaml.safe_dump(told), PLANNER).pods
        try:
            koordinator.plane.api.create(f"/api/v1/namespaces/{namespace}/pods", pod)
        except ApiError as error:  # the adapter's webhook refuses at once what the scheduler would
            if found.stage is Stage.PLACED or "Koordinator refuses the pod" not in str(error):
                wrong.append((dict(limits), found.words, str(error)))
            continue
        if found.stage is Stage.PLACED:
            bound = koordinator.wait_bound(namespace, name)
            recorded = json.loads(bound["metadata"]["annotations"][ALLOCATED_KEY])
            if recorded != json.loads(found.annotations[ALLOCATED_KEY]):
                wrong.append((dict(limits), found.annotations, recorded))
        else:
            said = koordinator.wait_refused(namespace, name)
            if not words_of(_expected(found.words)) <= words_of(said):
                wrong.append((dict(limits), found.words, said))
            koordinator.plane.api.delete(f"/api/v1/namespaces/{namespace}/pods/{name}")
    assert wrong == []
