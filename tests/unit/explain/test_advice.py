"""Messages about a change that would let a pod fit."""

from dataclasses import replace

import pytest

from hami_plugins.engine.eligibility import UNSCHEDULABLE
from hami_plugins.explain import advice
from hami_plugins.model.nodes import Taint
from hami_plugins.model.quantity import NANO
from hami_plugins.model.units import NodeName
from hami_plugins.suggest.changes import (
    AddedNode,
    Change,
    ChangeKind,
    Dropped,
    LessOf,
    LessPlain,
    RaisedQuota,
    Removed,
    Tolerated,
)
from tests.builders import ACME, MEMORY, a_record, a_request, a_share, a_snapshot, allocated
from tests.unit.suggest.questions import a_busy_node, a_pod_on, offered, wanting

LESS = LessOf(
    kind=ChangeKind.MEMORY, resource="nvidia.com/gpumem", before=90_000, after=81_920, containers=(0,), vendor=ACME
)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (LESS, "with nvidia.com/gpumem: 81920 instead of 90000"),
        (replace(LESS, before=None), "with nvidia.com/gpumem: 81920 instead of the whole card"),
        (LessPlain(resource="cpu", before=16 * NANO, after=NANO // 2), "with cpu: 0.5 instead of 16"),
        (LessPlain(resource="a.com/thing", before=16 * NANO, after=0), "without a.com/thing: 16"),
        (
            LessPlain(resource="memory", before=(8 << 30) * NANO, after=(4 << 30) * NANO),
            "with memory: 4Gi instead of 8Gi",
        ),
        (
            Dropped(kind=ChangeKind.USE_MODELS, key="nvidia.com/use-gputype", value="a100", vendor=ACME),
            "without nvidia.com/use-gputype: a100",
        ),
        (Dropped(kind=ChangeKind.USE_IDS, key="a/use,b/use", value="x"), "without a/use and b/use: x"),
        (
            Dropped(kind=ChangeKind.EXCLUSIVE, key="hami.io/gpu-scheduler-policy", value="mutex"),
            "without mutex in hami.io/gpu-scheduler-policy",
        ),
        (Dropped(kind=ChangeKind.NODE_SELECTOR, key="zone", value="b"), "without nodeSelector zone: b"),
        (Dropped(kind=ChangeKind.NODE_AFFINITY, key="zone"), "without the node affinity on zone"),
        (Dropped(kind=ChangeKind.NODE_NAME, key="spec.nodeName", value="n1"), "without spec.nodeName: n1"),
        (Tolerated(taint=Taint("k", "v", "NoSchedule")), "with a toleration of the taint k: v"),
        (Tolerated(taint=Taint("k", "", "NoSchedule")), "with a toleration of the taint k"),
        (Tolerated(taint=UNSCHEDULABLE), "once the node is no longer cordoned"),
        (
            Tolerated(taint=Taint("node.kubernetes.io/not-ready", "", "NoExecute")),
            "once the taint node.kubernetes.io/not-ready is removed",
        ),
        (
            RaisedQuota(kind=ChangeKind.QUOTA_MEMORY, resource=MEMORY, left=1_000, needed=6_000, vendor=ACME),
            "with limits.acme.example/memory of the namespace raised by 5,000 (1,000 left, 6,000 needed)",
        ),
        (AddedNode(like=NodeName("n1")), "with one more node like n1"),
        (
            Removed(pod=a_pod_on("c", 9_000, 10, name="p"), node=NodeName("n1")),
            "without pod default/p, which holds 9,000 MiB and 10 cores on 1 card",
        ),
        (
            Removed(pod=a_pod_on("c", 9_000, name="p", priority=7), node=NodeName("n1")),
            "without pod default/p, which holds 9,000 MiB on 1 card, at priority 7",
        ),
        (
            Removed(pod=a_pod_on("c", 0, name="p", terminating=True), node=NodeName("n1")),
            "once pod default/p, which is terminating, has given back a slot on 1 card",
        ),
        (
            Removed(pod=a_record(allocated(), name="p"), node=NodeName("n1")),
            "without pod default/p, which holds no cards",
        ),
        (
            Removed(pod=a_record(allocated(a_share("c", 1), a_share("d", 2, 1)), name="p"), node=NodeName("n1")),
            "without pod default/p, which holds 3 MiB and 1 core on 2 cards",
        ),
    ],
)
def test_every_change_has_words(change: Change, words: str) -> None:
    assert advice.change_words(change, ("main",)) == words


@pytest.mark.parametrize(
    ("containers", "where"),
    [((1,), " in container b"), ((0, 2), " in containers a, c"), ((0, 1, 2), " in every container")],
)
def test_containers_are_named_where_there_are_several(containers: tuple[int, ...], where: str) -> None:
    words = advice.change_words(replace(LESS, containers=containers), ("a", "b", "c"))
    assert words == f"with nvidia.com/gpumem: 81920 instead of 90000{where}"


def test_a_sentence_names_the_node() -> None:
    cluster = a_snapshot(a_busy_node("n7", (9_000, 0)))
    found = offered(cluster, wanting(a_request(memory=9_000)))
    assert [advice.sentence(each) for each in found] == [
        "fits with acme.example/memory: 7384 instead of 9000 (on n7)",
        "fits without pod default/n7-pod-0, which holds 9,000 MiB on 1 card (on n7)",
        "fits with one more node like n7",
    ]


def test_a_sentence_joins_what_is_needed_together() -> None:
    cluster = a_snapshot(a_busy_node("n7", (6_384, 70)))
    pair = next(each for each in offered(cluster, wanting(a_request(memory=16_000, cores=50))) if len(each.changes) > 1)
    assert advice.sentence(pair) == (
        "fits with acme.example/cores: 30 instead of 50 and with acme.example/memory: 10000 instead of 16000 (on n7)"
    )
