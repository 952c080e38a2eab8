"""Gangs, queues and priorities in other words."""

from __future__ import annotations

import pytest

from hami_plugins.engine.annotate import NODE_KEY
from hami_plugins.model.dialect import Dialect
from hami_plugins.model.edits import DropEdit, PutEdit, made
from hami_plugins.wire.gang_keys import COSCHEDULING_LABEL, GROUP_KEY, JOB_QUEUE_KEY, QUEUE_KEY
from hami_plugins.wire.koordinator import ALLOCATED_KEY
from koordinator_adapter.core.translation import groups
from koordinator_adapter.core.translation.model import Fidelity, TranslationOptions
from koordinator_adapter.core.translation.vocabulary import (
    GANG_NAME,
    GROUP,
    MIN_AVAILABLE,
    OLD_GROUP,
    QUOTA,
)
from tests.unit.koordinator_adapter.written import (
    LABEL,
    SLICE,
    VOLCANO_SLICE,
    Raw,
    about,
    koordinators,
    limits_of,
    moved,
    pod,
    translated,
)


@pytest.mark.parametrize(
    ("raw", "target", "labels", "annotations"),
    [
        (pod(SLICE, labels={"scheduling.x-k8s.io/pod-group": "g"}), "koordinator", {GROUP: "g", **LABEL}, {}),
        (
            pod(SLICE, labels={"scheduling.x-k8s.io/pod-group": "g"}),
            "volcano",
            {},
            {"scheduling.k8s.io/group-name": "g"},
        ),
        (
            pod(VOLCANO_SLICE, annotations={"scheduling.k8s.io/group-name": "g"}),
            "koordinator",
            {GROUP: "g", **LABEL},
            {},
        ),
        (koordinators(labels={GROUP: "g"}), "volcano", {}, {"scheduling.k8s.io/group-name": "g"}),
        (koordinators(labels={OLD_GROUP: "g"}), "volcano", {}, {"scheduling.k8s.io/group-name": "g"}),
        (koordinators(annotations={GANG_NAME: "g"}), "volcano", {}, {"scheduling.k8s.io/group-name": "g"}),
        (koordinators(labels={GROUP: "g"}), "hami", {"scheduling.x-k8s.io/pod-group": "g"}, {}),
        (
            pod(VOLCANO_SLICE, annotations={QUEUE_KEY: "q"}),
            "koordinator",
            {QUOTA: "q", **LABEL},
            {},
        ),
        (koordinators(labels={QUOTA: "q"}), "volcano", {}, {QUEUE_KEY: "q"}),
    ],
)
def test_groups_and_queues_keep_their_names(
    raw: Raw, target: str, labels: dict[str, str], annotations: dict[str, str]
) -> None:
    metadata = moved(raw, target)["metadata"]
    assert (metadata.get("labels", {}), metadata.get("annotations", {})) == (labels, annotations)


@pytest.mark.parametrize(
    ("raw", "target", "what"),
    [
        (pod(VOLCANO_SLICE, annotations={QUEUE_KEY: "q"}), "hami", [QUEUE_KEY]),
        (koordinators(labels={QUOTA: "q"}), "hami", [QUOTA]),
        (koordinators(labels={GROUP: "g"}), "hami", [GROUP]),
        (koordinators(labels={"koordinator.sh/qosClass": "LS"}), "volcano", ["koordinator.sh/qosClass"]),
        (koordinators(annotations={MIN_AVAILABLE: "2"}), "volcano", [MIN_AVAILABLE]),
        (koordinators(annotations={MIN_AVAILABLE: "2"}), "hami", [MIN_AVAILABLE]),
        (
            koordinators(annotations={"gang.scheduling.koordinator.sh/mode": "NonStrict"}),
            "volcano",
            ["gang.scheduling.koordinator.sh/mode"],
        ),
        (
            koordinators(annotations={"gang.scheduling.koordinator.sh/groups": "[]"}),
            "hami",
            ["gang.scheduling.koordinator.sh/groups"],
        ),
        (
            pod(VOLCANO_SLICE, annotations={"volcano.sh/vgpu-podgroup-policy": "spread"}),
            "koordinator",
            ["volcano.sh/vgpu-podgroup-policy"],
        ),
        (pod(SLICE, annotations={NODE_KEY: "n1"}, labels={NODE_KEY: "n1"}), "volcano", [NODE_KEY]),
        (koordinators(annotations={ALLOCATED_KEY: "{}"}), "hami", [ALLOCATED_KEY]),
        (pod(SLICE, env={"CUDA_DISABLE_CONTROL": "true"}), "koordinator", ["CUDA_DISABLE_CONTROL"]),
        (pod(SLICE, env={"LD_PRELOAD": "/x.so"}), "koordinator", ["LD_PRELOAD"]),
    ],
)  # fmt: skip
def test_what_is_given_up_is_told_and_goes(raw: Raw, target: str, what: list[str]) -> None:
    found = translated(raw, target)
    assert about(found, Fidelity.LOSSY) == what
    metadata = made(raw, found.edits)["metadata"]
    assert what[0] not in {**metadata.get("labels", {}), **metadata.get("annotations", {})}  # type: ignore[attr-defined]


def test_a_gang_that_is_not_spread_says_nothing() -> None:
    raw = pod(VOLCANO_SLICE, annotations={"volcano.sh/vgpu-podgroup-policy": "pack"})
    assert translated(raw, "koordinator").fidelity is Fidelity.LOSSLESS


def test_koordinators_priority_classes_have_to_exist() -> None:
    raw = koordinators(priorityClassName="koord-prod")
    assert "priorityClassName" in about(translated(raw, "hami"), Fidelity.LOSSLESS)


THERE = TranslationOptions(groups=frozenset({"default/g"}), quotas=frozenset({"q"}))


@pytest.mark.parametrize(
    ("raw", "target", "about_it", "said"),
    [
        (pod(SLICE, labels={"scheduling.x-k8s.io/pod-group": "g"}), "koordinator", "PodGroup", "sigs.k8s.io"),
        (pod(VOLCANO_SLICE, annotations={GROUP_KEY: "g"}), "koordinator", "PodGroup", "sigs.k8s.io"),
        (koordinators(labels={GROUP: "g"}), "volcano", "PodGroup", "volcano.sh"),
        (pod(VOLCANO_SLICE, annotations={QUEUE_KEY: "q"}), "koordinator", "ElasticQuota", "nothing limits"),
        (pod(VOLCANO_SLICE, annotations={JOB_QUEUE_KEY: "q"}), "koordinator", "ElasticQuota", "nothing limits"),
        (koordinators(labels={QUOTA: "q"}), "volcano", "Queue", "its pods wait"),
    ],
)
def test_groups_and_queues_that_are_not_there_are_told(raw: Raw, target: str, about_it: str, said: str) -> None:
    found = translated(raw, target)
    assert about(found, Fidelity.LOSSY) == [about_it]
    assert said in found.findings[-1].words
    assert found.findings[-1].remedy
    assert not about(translated(raw, target, THERE), Fidelity.LOSSY)
    other = pod(VOLCANO_SLICE, annotations={GROUP_KEY: "g"})
    other["metadata"]["namespace"] = "elsewhere"
    assert about(translated(other, "koordinator", THERE), Fidelity.LOSSY) == ["PodGroup"]


def test_the_queue_of_a_jobs_pod_is_kept_under_whichever_key_it_stands() -> None:
    raw = pod(VOLCANO_SLICE, annotations={JOB_QUEUE_KEY: "q"})
    metadata = moved(raw, "koordinator")["metadata"]
    assert metadata["labels"][QUOTA] == "q"
    assert "annotations" not in metadata
    assert about(translated(raw, "hami"), Fidelity.LOSSY) == [JOB_QUEUE_KEY]


GANGS = TranslationOptions(groups=frozenset({"default/g"}), quotas=frozenset({"q"}), moved=frozenset({"default/g"}))
VOLCANOS: Raw = {"annotations": {GROUP_KEY: "g", QUEUE_KEY: "q"}, "schedulerName": "volcano"}
KOORDINATORS: Raw = {"labels": {GROUP: "g"}, "schedulerName": "koord-scheduler"}
HAMIS: Raw = {"labels": {COSCHEDULING_LABEL: "g"}, "schedulerName": "hami-scheduler"}


@pytest.mark.parametrize(
    ("source", "target", "scheduler", "labels", "annotations"),
    [
        (VOLCANOS, "koordinator", "koord-scheduler", {GROUP: "g", QUOTA: "q"}, {}),
        (VOLCANOS, "hami", "hami-scheduler", {COSCHEDULING_LABEL: "g"}, {}),
        (KOORDINATORS, "volcano", "volcano", {}, {GROUP_KEY: "g"}),
        (HAMIS, "koordinator", "koord-scheduler", {GROUP: "g"}, {}),
    ],
)
def test_a_member_without_cards_goes_along_with_its_gang(
    source: Raw, target: str, scheduler: str, labels: dict[str, str], annotations: dict[str, str]
) -> None:
    after = moved(pod({"cpu": 1}, **source), target, GANGS)
    assert after["spec"]["schedulerName"] == scheduler
    assert after["metadata"].get("labels", {}) == labels
    assert after["metadata"].get("annotations", {}) == annotations
    assert limits_of(after) == {"cpu": 1}
    assert "nodeSelector" not in after["spec"]


@pytest.mark.parametrize(
    ("raw", "target"),
    [
        (pod({"cpu": 1}, **VOLCANOS), "volcano"),
        (pod({"cpu": 1}, **{**VOLCANOS, "schedulerName": "default-scheduler"}), "koordinator"),
        (pod({"cpu": 1}, **{**VOLCANOS, "annotations": {GROUP_KEY: "other"}}), "koordinator"),
        (pod({"cpu": 1}, schedulerName="volcano"), "koordinator"),
    ],
)
def test_a_pod_without_cards_of_no_gang_that_moves_stays(raw: Raw, target: str) -> None:
    found = translated(raw, target, GANGS)
    assert (found.source, found.edits, found.findings) == (None, (), ())


def test_the_queue_of_a_gang_stands_in_its_group() -> None:
    in_gang = koordinators(labels={GROUP: "g", QUOTA: "q"})
    found = translated(in_gang, "volcano", THERE)
    assert about(found, Fidelity.LOSSY) == [QUOTA]
    assert found.findings[-1].remedy == "write queue: q into the spec of that PodGroup"
    described = koordinators(labels={GROUP: "g", QUOTA: "q"}, annotations={MIN_AVAILABLE: "2"})
    assert about(translated(described, "volcano", THERE), Fidelity.LOSSY) == [MIN_AVAILABLE, QUOTA]
    assert about(translated(described, "volcano", TranslationOptions(quotas=frozenset({"q"}))), Fidelity.LOSSY) == [
        MIN_AVAILABLE
    ]


DETAILS = {
    "example.com/note": "x",
    GANG_NAME: "g",
    MIN_AVAILABLE: "2",
    "gang.scheduling.koordinator.sh/mode": "Strict",
}


class TestGangDetails:
    def test_they_stay_where_koordinator_schedules_the_pod_and_where_it_never_did(self) -> None:
        raw = koordinators(annotations=DETAILS)
        assert moved(raw, "koordinator")["metadata"]["annotations"] == DETAILS
        raw = pod(SLICE, annotations={MIN_AVAILABLE: "2"})
        assert moved(raw, "volcano")["metadata"]["annotations"] == {MIN_AVAILABLE: "2"}

    @pytest.mark.parametrize(("target", "api"), [("volcano", "scheduling.volcano.sh"), ("hami", "scheduling.x-k8s.io")])
    def test_the_number_of_pods_that_start_together_belongs_into_a_pod_group(self, target: str, api: str) -> None:
        raw = koordinators(annotations=DETAILS)
        least = next(each for each in translated(raw, target).findings if each.about == MIN_AVAILABLE)
        assert least.words == "2 pods start together if a PodGroup says so"
        assert least.remedy == f"make a PodGroup of {api} with minMember 2"
        assert "example.com/note" in moved(raw, target)["metadata"]["annotations"]


def test_a_queue_that_volcano_does_not_read_stays_on_a_pod_of_another_scheduler() -> None:
    raw = pod(SLICE, annotations={QUEUE_KEY: "q"})
    assert moved(raw, "volcano")["metadata"]["annotations"] == {QUEUE_KEY: "q"}
    raw = pod(VOLCANO_SLICE, annotations={QUEUE_KEY: "q"})
    assert moved(raw, "volcano") == raw


def test_of_two_names_of_a_queue_the_pods_own_counts() -> None:
    raw = pod(VOLCANO_SLICE, annotations={QUEUE_KEY: "pods", JOB_QUEUE_KEY: "jobs"})
    found = moved(raw, "koordinator")["metadata"]
    assert found["labels"][QUOTA] == "pods"
    assert not found.get("annotations")
    assert about(translated(raw, "hami"), Fidelity.LOSSY) == [QUEUE_KEY]


def test_an_owner_that_names_a_queue_alone_gives_it_to_its_pods() -> None:
    changes = list(
        groups.of_owner(
            {QUEUE_KEY: "q"},
            "web",
            ("spec", "template"),
            Dialect.KOORDINATOR,
            TranslationOptions(quotas=frozenset("q")),
        )
    )
    assert changes == [
        DropEdit(("metadata", "annotations", QUEUE_KEY)),
        PutEdit(("spec", "template", "metadata", "labels", QUOTA), "q"),
    ]
