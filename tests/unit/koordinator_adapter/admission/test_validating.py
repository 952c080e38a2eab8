"""What nobody but a scheduler may write, and what would switch limits off."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hami_plugins.wire.admission_review import Allowed, Answer
from hami_plugins.wire.koordinator import ALLOCATED_KEY, CORE, MEMORY, RATIO, RDMA, SHARED
from koordinator_adapter.admission import validating
from koordinator_adapter.admission.validating import FORBIDDEN, SENSELESS
from koordinator_adapter.translation.vocabulary import IGNORE, ISOLATION, MEMORY_LIMIT, OPT_IN, VISIBLE
from tests.unit.koordinator_adapter.admission.asking import (
    POLICY,
    SCHEDULER,
    admitted,
    annotated,
    change,
    creation,
    reason,
)
from tests.unit.koordinator_adapter.written import Raw, pod

LABEL = {ISOLATION: "HAMi-core"}
SHARE = {SHARED: 1, CORE: 50, RATIO: 50}
SLICE = pod(SHARE, labels=LABEL)
RECORD = {ALLOCATED_KEY: '{"gpu":[{"minor":0}]}'}


def of_new(raw: Raw) -> Answer:
    return validating.validate(creation(raw), POLICY)


@pytest.mark.parametrize("key", [ALLOCATED_KEY, VISIBLE, f"{MEMORY_LIMIT}0", "scheduling.koordinator.sh/gpu-minors"])
def test_a_record_is_nobodys_to_write_change_or_remove_but_a_schedulers(key: str) -> None:
    with_it, other = annotated(SLICE, {key: "x"}), annotated(SLICE, {key: "y"})
    for request in (creation(with_it), change(SLICE, with_it), change(with_it, other), change(with_it, SLICE)):
        answer = validating.validate(request, POLICY)
        assert key in reason(answer)
        assert getattr(answer, "code", 0) == FORBIDDEN
        assert not reason(answer).endswith(".")
        assert validating.validate(replace(request, user=SCHEDULER), POLICY) == Allowed()


def test_a_change_that_leaves_the_record_alone_is_everybodys() -> None:
    placed = annotated(SLICE, RECORD)
    assert validating.validate(change(placed, annotated(placed, {"mine": "x"})), POLICY) == Allowed()


def test_a_pod_without_anything_on_it_writes_no_record() -> None:
    bare: Raw = {"spec": {"containers": []}}
    assert validating.validate(change(bare, bare), POLICY) == Allowed()
    assert ALLOCATED_KEY in reason(
        validating.validate(change(bare, annotated({**bare, "metadata": {}}, RECORD)), POLICY)
    )


def test_an_init_container_and_an_application_may_ask_for_half_a_card_each() -> None:
    raw = pod(SHARE, labels=LABEL)
    raw["spec"]["initContainers"] = [{"name": "warm-up", "resources": {"limits": SHARE}}]
    assert of_new(raw) == Allowed()


def test_groups_are_trusted_like_users() -> None:
    policy = replace(POLICY, users=frozenset(), groups=frozenset({"system:authenticated"}))
    assert validating.validate(creation(annotated(SLICE, RECORD)), policy) == Allowed()


def test_the_label_of_a_pod_that_shares_a_card_stays_for_its_life() -> None:
    for labels in ({}, {ISOLATION: "hami-core"}, {ISOLATION: ""}):
        after = pod(SHARE, labels=labels)
        assert ISOLATION in reason(validating.validate(change(SLICE, after), POLICY))
        assert validating.validate(change(SLICE, after, user=SCHEDULER), POLICY) == Allowed()


def test_the_label_of_a_pod_with_whole_cards_means_nothing_and_may_go() -> None:
    whole = {SHARED: 1, CORE: 100, RATIO: 100}
    assert validating.validate(change(pod(whole, labels=LABEL), pod(whole)), POLICY) == Allowed()
    assert validating.validate(change(pod({"cpu": 1}, labels=LABEL), pod({"cpu": 1})), POLICY) == Allowed()


def test_a_label_that_nobody_acts_upon_is_refused_with_the_one_that_is_meant() -> None:
    why = reason(of_new(pod(SHARE, labels={ISOLATION: "hami-core"})))
    assert "write HAMi-core" in why


def test_a_pod_that_shares_a_card_without_limits_is_told_of_or_refused() -> None:
    answer = of_new(pod(SHARE))
    assert isinstance(answer, Allowed)
    assert "without limits" in answer.warnings[0]
    strict = replace(POLICY, without_limits="refuse")
    assert "without limits" in reason(validating.validate(creation(pod(SHARE)), strict))
    lenient = replace(POLICY, without_limits="allow")
    assert validating.validate(creation(pod(SHARE)), lenient) == Allowed()
    assert validating.validate(creation(pod(SHARE, labels={OPT_IN: IGNORE})), strict) == Allowed()


@pytest.mark.parametrize("name", ["CUDA_DEVICE_MEMORY_LIMIT", "CUDA_DEVICE_MEMORY_LIMIT_0", "CUDA_DEVICE_SM_LIMIT_3"])
def test_a_limit_of_the_containers_own_is_refused_where_limits_are_promised(name: str) -> None:
    assert name in reason(of_new(pod(SHARE, labels=LABEL, env={name: "80000m"})))
    assert isinstance(of_new(pod(SHARE, env={name: "80000m"})), Allowed)


def test_limits_that_this_server_has_put_there_are_none_of_the_containers_own() -> None:
    found = admitted(SLICE, replace(POLICY, injects="always"))
    assert of_new(found) == Allowed()
    stolen = {"name": "CUDA_DEVICE_SM_LIMIT_0", "value": "99"}
    env = found["spec"]["containers"][0]["env"]
    env[:] = [stolen if each["name"] == stolen["name"] else each for each in env]
    assert "CUDA_DEVICE_SM_LIMIT_0" in reason(of_new(found))


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ({"koordinator.sh/gpu": 50, SHARED: 1}, "Forbidden declare GPU and GPU share at same time"),
        ({SHARED: 2, CORE: 101, RATIO: 100}, "the requested gpuCore must multiple of shared"),
        ({CORE: 50}, "invalid resource device requests"),
        ({"koordinator.sh/gpu": 150}, "the requested GPU must be percentage of 100"),
        ({MEMORY: 8000}, "8000Mi"),
        ({"koordinator.sh/gpu-shared": 1, RATIO: 50}, "gpu.shared"),
    ],
)
def test_what_koordinator_would_refuse_is_refused_at_once_in_its_words(limits: Raw, said: str) -> None:
    answer = of_new(pod(limits))
    assert said in reason(answer)
    assert getattr(answer, "code", 0) == SENSELESS


@pytest.mark.parametrize("raw", [pod({"cpu": 1}), pod({"nvidia.com/gpu": 1}), pod({SHARED: 1, CORE: 100, RATIO: 100})])
def test_pods_without_koordinators_words_and_with_whole_cards_come_in(raw: Raw) -> None:
    assert of_new(raw) == Allowed()


def test_what_cannot_be_read_is_refused_with_the_place_and_a_deletion_is_let_through() -> None:
    assert "annotations" in reason(of_new({"metadata": {"annotations": 3}}))
    assert validating.validate(creation(None), POLICY) == Allowed()


def test_network_cards_of_all_containers_are_looked_at_in_sum() -> None:
    assert of_new(pod({RDMA: 60}, {RDMA: 40})) == Allowed()
    assert "invalid resource unit koordinator.sh/rdma: 120" in reason(of_new(pod({**SHARE, RDMA: 60}, {RDMA: 60})))
