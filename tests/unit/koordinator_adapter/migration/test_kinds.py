"""The kinds of objects that a migration looks at: which they are, where they are, and what becomes of their pods."""

from __future__ import annotations

import pytest

from hami_plugins.model.dialect import Dialect
from koordinator_adapter.core.migration.kinds import is_group, is_named, is_quota, name_of, path_of, remade, served
from tests.unit.koordinator_adapter.migration.cluster import HAMI, Raw, a_group, a_pod, a_template, a_workload

DEPLOYMENT = a_workload("w", a_template(HAMI, "hami-scheduler"))


@pytest.mark.parametrize(
    ("kind", "spec", "words"),
    [
        ("Deployment", {}, "one after another"),
        ("Deployment", {"strategy": {"type": "Recreate"}}, "end and are then recreated"),
        ("StatefulSet", {"updateStrategy": {"type": "OnDelete"}}, "kubectl -n ml delete pods -l app=x"),
        ("DaemonSet", {"updateStrategy": {"type": "OnDelete"}}, "kubectl -n ml delete pods -l app=x"),
        ("ReplicaSet", {}, "kubectl -n ml delete pods -l app=x"),
        ("ReplicationController", {"selector": {"app": "y"}}, "kubectl -n ml delete pods -l app=y"),
        ("ReplicaSet", {"selector": {"matchExpressions": []}}, "kubectl -n ml delete pods ..."),
        ("CronJob", {}, "next Jobs"),
    ],
)
def test_a_plan_says_when_running_pods_become_others(kind: str, spec: Raw, words: str) -> None:
    raw = a_workload("w", a_template(HAMI, "hami-scheduler"), kind=kind)
    assert words in remade({**raw, "spec": {**raw["spec"], **spec}})


def test_a_pod_group_is_one_of_a_scheduler_that_is_known() -> None:
    assert is_group(a_group())
    assert not is_group({**a_group(), "apiVersion": "example.com/v1"})
    assert not is_group(DEPLOYMENT)


@pytest.mark.parametrize(
    ("version", "kind", "target"),
    [
        ("scheduling.sigs.k8s.io/v1alpha1", "ElasticQuota", Dialect.KOORDINATOR),
        ("scheduling.volcano.sh/v1beta1", "Queue", Dialect.VOLCANO),
    ],
)
def test_quotas_are_those_of_the_target(version: str, kind: str, target: Dialect) -> None:
    raw = {"apiVersion": version, "kind": kind, "metadata": {"name": "q"}}
    assert [words for words in Dialect if is_quota(raw, words)] == [target]
    assert not is_quota({**raw, "apiVersion": "example.com/v1"}, target)


def test_what_another_object_makes_and_what_is_not_known_is_not_changed() -> None:
    assert served(DEPLOYMENT)
    assert served({**DEPLOYMENT, "metadata": None})
    assert not served(a_pod("made", "GPU-0"))
    assert not served({**DEPLOYMENT, "apiVersion": "example.com/v1"})
    made = {**DEPLOYMENT, "metadata": {"ownerReferences": ["?", {"kind": "App"}]}}
    assert served(made), "an owner that does not put it right"


def test_names_and_paths_are_those_of_the_api() -> None:
    assert name_of(DEPLOYMENT) == "deployment/ml/w"
    assert path_of(DEPLOYMENT) == "/apis/apps/v1/namespaces/ml/deployments/w"
    group = "podgroup.scheduling.sigs.k8s.io/ml/team"
    assert name_of(a_group()) == group
    assert name_of({"kind": "Pod", "metadata": {"name": "p"}}) == "pod/default/p"
    assert path_of({"kind": "Pod", "metadata": {"name": "p"}}) == "/api/v1/namespaces/default/pods/p"
    assert name_of({"kind": "Pod", "metadata": 7}) == "pod/default/"


@pytest.mark.parametrize(
    ("metadata", "named"),
    [
        ({"name": "w", "namespace": "ml"}, True),
        ({"name": "w"}, True),
        ({"name": ""}, False),
        ({"name": "a/b"}, False),
        ({"name": 7}, False),
        ({"name": "w", "namespace": "a/b"}, False),
        (None, False),
    ],
)
def test_a_name_is_text_without_a_slash(metadata: object, *, named: bool) -> None:
    raw: Raw = {"kind": "Pod", "metadata": metadata}
    assert is_named(raw) is named
