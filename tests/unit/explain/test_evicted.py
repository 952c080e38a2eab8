"""Which pod took the place of an evicted pod, as far as the listing shows it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from hami_plugins.errors import ManifestError
from hami_plugins.explain import explain
from hami_plugins.explain.evicted import Eviction, eviction_of
from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.model.pods import Pod, PodRecord
from hami_plugins.model.units import NodeName, PodUid
from hami_plugins.output import documents, explanations
from hami_plugins.plan import Planner
from tests.builders import a_pod
from tests.unit.plan.plans import REGISTRY
from tests.unit.plan.test_preemption import asking
from tests.unit.preemption.clusters import a_cluster, running

LEAVING = running("low", terminating=True, disruption="PreemptionByScheduler")


def a_listing(*records: PodRecord, waiting: Sequence[Pod] = (), **evicted: str) -> ClusterSnapshot:
    told = {f"default/{name}": message for name, message in evicted.items()}
    return replace(a_cluster(records, cards=1), pending=tuple(waiting), evicted=told)


def lines(snapshot: ClusterSnapshot, name: str) -> list[str]:
    """The lines about evictions in the explanation of a pod."""
    planner = Planner(REGISTRY)
    words = [line.words.strip() for line in explanations.lines(explain(snapshot, f"default/{name}", planner), REGISTRY)]
    return [line for line in words if "evict" in line or "place goes" in line or "nominated" in line]


def test_a_pod_that_is_evicted_says_for_whom_its_place_is_kept() -> None:
    high = replace(asking(), nominated=NodeName("n0"))
    elsewhere = replace(asking("other"), nominated=NodeName("n1"))
    found = lines(a_listing(LEAVING, waiting=(high, elsewhere)), "low")
    assert found == ["it is being evicted (PreemptionByScheduler)", "its place goes to default/high"]
    told = explanations.lines(explain(a_listing(LEAVING, waiting=(high,)), "default/low", Planner(REGISTRY)), REGISTRY)
    assert not any("rescheduled" in line.words for line in told)


def test_the_page_shows_these_lines() -> None:
    high = replace(asking(namespace="lab"), nominated=NodeName("n1"))
    low = replace(LEAVING, namespace="lab")
    snapshot = a_listing(low, waiting=(high,))
    snapshot = replace(snapshot, nodes=(replace(snapshot.nodes[0], name=NodeName("n1")),))
    found = [line.words for line in explanations.lines(explain(snapshot, "lab/low", Planner(REGISTRY)), REGISTRY)]
    page = (Path(__file__).parents[3] / "docs" / "tasks" / "see-who-would-be-evicted.md").read_text(encoding="utf-8")
    *_, last = re.findall(r"^```text\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    assert [line for line in last.splitlines() if line not in found] == []


def test_a_pod_for_which_room_is_made_says_where() -> None:
    high = replace(asking(), nominated=NodeName("n0"))
    assert "nominated for n0: room is made for it there" in lines(a_listing(LEAVING, waiting=(high,)), "high")


def test_a_pod_that_waits_again_says_who_runs_in_its_place() -> None:
    """kube-scheduler's event names the UID of the pod."""
    again = asking("web-0", priority=0)
    taker = running("high", priority=1_000, uid=PodUid("uid-1"))
    snapshot = a_listing(taker, waiting=(again,), **{"web-0": "Preempted by pod uid-1 on node n0"})
    told = ["event of its eviction: Preempted by pod default/high on node n0", "its place goes to default/high"]
    assert lines(snapshot, "web-0")[-2:] == told


def test_a_pod_that_is_gone_says_why() -> None:
    snapshot = a_listing(running("high"), gone="evicted for pod default/high, priority 10 < 100")
    why = "event of its eviction: evicted for pod default/high, priority 10 < 100; its place goes to default/high"
    with pytest.raises(ManifestError, match=why):
        explain(snapshot, "default/gone", Planner(REGISTRY))


def test_a_uid_that_nobody_has_stays_as_it_is() -> None:
    found = eviction_of(a_listing(low="Preempted by pod uid-9 on node n0"), "default/low")
    assert found == Eviction(message="Preempted by pod uid-9 on node n0")
    assert list(found.lines) == ["event of its eviction: Preempted by pod uid-9 on node n0"]


def test_pods_without_uid_are_not_taken_for_named() -> None:
    found = eviction_of(a_listing(waiting=(a_pod(name="other"),), low="Evicted"), "default/low")
    assert found is not None
    assert found.successors == ()


def test_a_pod_that_nothing_evicts_says_nothing() -> None:
    assert lines(a_listing(running("low")), "low") == []
    assert eviction_of(a_listing(), "default/low") is None


def test_the_document_says_the_same() -> None:
    high = replace(asking(), nominated=NodeName("n0"))
    snapshot = a_listing(LEAVING, waiting=(high,))
    document = documents.explanation(explain(snapshot, "default/low", Planner(REGISTRY)), REGISTRY)
    assert document["eviction"] == {
        "reason": "PreemptionByScheduler",
        "message": "",
        "successors": ["default/high"],
    }
    assert documents.explanation(explain(snapshot, "default/high", Planner(REGISTRY)), REGISTRY)["eviction"] is None
