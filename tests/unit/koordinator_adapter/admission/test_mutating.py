"""New pods: other words, warnings, refusals, and who is left alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hami_plugins.engine import koordinator
from hami_plugins.model.units import MiB
from hami_plugins.wire import pods
from hami_plugins.wire.admission_review import Allowed, Denied
from hami_plugins.wire.koordinator import ALLOCATED_KEY, CORE, MEMORY, RATIO, SHARED
from koordinator_adapter.core.admission.mutation import mutate, warnings_of
from koordinator_adapter.core.admission.policy import AdmissionPolicy, ClusterFacts
from koordinator_adapter.core.translation.koordinator_reader import amounts_of
from koordinator_adapter.core.translation.model import TranslationOptions, lost
from koordinator_adapter.core.translation.vocabulary import HINT, IGNORE, INJECTED, ISOLATION, OPT_IN
from tests.unit.koordinator_adapter.admission.asking import (
    POLICY,
    admitted,
    answered,
    creation,
    patched,
    reason,
)
from tests.unit.koordinator_adapter.written import NVIDIA_NODES, REGISTRY, Raw, limits_of, pod

HAMI = {"nvidia.com/gpu": 2, "nvidia.com/gpumem": 8192, "nvidia.com/gpucores": 40}
VOLCANO = {"volcano.sh/vgpu-number": 2, "volcano.sh/vgpu-memory": 8192, "volcano.sh/vgpu-cores": 40}
LABEL = {ISOLATION: "HAMi-core"}
BY_ID = {"nvidia.com/use-gpuuuid": "GPU-1"}


@pytest.mark.parametrize("limits", [HAMI, VOLCANO])
def test_a_pod_in_other_words_comes_in_complete(limits: dict[str, object]) -> None:
    found = admitted(pod(limits))
    assert limits_of(found) == {SHARED: 2, CORE: 80, MEMORY: "16Gi"}
    assert found["metadata"]["labels"] == LABEL
    assert found["spec"]["nodeSelector"] == {**LABEL, **NVIDIA_NODES}
    assert found["spec"]["schedulerName"] == "koord-scheduler"
    assert found["spec"]["runtimeClassName"] == "nvidia"


@pytest.mark.parametrize(
    "raw",
    [
        pod(HAMI),
        pod({"nvidia.com/gpu": 1}),
        pod(VOLCANO),
        pod({"koordinator.sh/gpu": 50}, labels=LABEL),
        pod({"koordinator.sh/gpu": 200}),
        pod({MEMORY: "8Gi"}, labels=LABEL),
    ],
)
def test_koordinators_own_webhook_and_this_one_find_nothing_to_do_with_it(raw: Raw) -> None:
    found = admitted(raw)
    amounts = amounts_of(pods.pod(found), 0)
    assert koordinator.normalised(amounts) == amounts
    assert answered(found) == Allowed()


@pytest.mark.parametrize("name", ["aws.amazon.com/neuron", "amd.com/gpu", "birentech.com/gpu", "hygon.com/dcunum"])
def test_a_pod_for_cards_that_koordinator_does_not_divide_comes_in_with_a_warning(name: str) -> None:
    answer = answered(pod({name: 1}))
    assert isinstance(answer, Allowed)
    assert answer.operations == ()
    (warning,) = answer.warnings
    assert warning.startswith(f"{name}: ")


def test_a_pod_for_several_vendors_cards_is_refused_still() -> None:
    assert "2 requests for cards" in reason(answered(pod({**HAMI, "hygon.com/dcunum": 1})))


def test_a_pod_that_koordinators_webhook_completed_first_is_left_as_it_is() -> None:
    normalised = pod(
        {SHARED: 1, CORE: 50, RATIO: 50}, labels=LABEL, nodeSelector=LABEL, schedulerName="koord-scheduler"
    )
    assert answered(normalised) == Allowed()


def test_what_is_lost_is_told_in_warnings() -> None:
    raw = pod({"nvidia.com/gpu": 1, "nvidia.com/gpumem": 1000})
    answer = answered(raw)
    assert isinstance(answer, Allowed)
    assert [each.partition(":")[0] for each in answer.warnings] == [CORE]
    assert "10 % booked" in answer.warnings[0]


def test_a_warning_is_no_longer_than_what_is_shown_of_it() -> None:
    (found,) = warnings_of([lost("about", "x" * 500)])
    assert len(found) == 256
    assert found.endswith("...")


def test_a_pod_that_cannot_be_said_in_koordinators_words_is_refused_with_the_reason_and_the_way_out() -> None:
    two = pod({"nvidia.com/gpu": 1, "nvidia.com/gpumem": 1000}, {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 1000})
    why = reason(answered(two))
    assert "put the cards into one container" in why
    assert f"{OPT_IN}: {IGNORE}" in why


@pytest.mark.parametrize(
    "raw",
    [
        pod({"cpu": 1}),
        pod(HAMI, labels={OPT_IN: IGNORE}),
        pod(HAMI, nodeName="n1"),
    ],
)
def test_pods_without_cards_unwilling_ones_and_placed_ones_are_left_alone(raw: Raw) -> None:
    assert answered(raw) == Allowed()


def test_a_deletion_is_nothing_to_be_translated() -> None:
    assert mutate(creation(None), REGISTRY, POLICY, ClusterFacts()) == Allowed()


def test_the_namespace_of_the_request_counts_where_the_pod_names_none() -> None:
    why = reason(answered(pod(HAMI), facts=ClusterFacts(unserved=frozenset({"team"}))))
    assert "control-plane" in why
    assert not isinstance(answered(pod(HAMI), facts=ClusterFacts(unserved=frozenset({"default"}))), Denied)


def test_what_the_cluster_says_counts_unless_it_is_set() -> None:
    facts = ClusterFacts(device_labels=True, card_memory=MiB(4096), models=("NVIDIA-A10",))
    assert (
        HINT
        in admitted(pod(HAMI | {"nvidia.com/gpumem": 1000}, annotations=BY_ID), facts=facts)["metadata"]["annotations"]
    )
    assert "largest card" in reason(answered(pod(HAMI), facts=facts))
    fixed = AdmissionPolicy(translation=TranslationOptions(card_memory=MiB(80_000)), fixed=frozenset({"card_memory"}))
    assert isinstance(answered(pod(HAMI), fixed, facts), Allowed)


def test_a_record_that_a_new_pod_brings_along_is_left_out() -> None:
    """Koordinator would believe it, whichever client wrote it; the admission policy judges pods that are not
    translated.
    """
    raw = pod({SHARED: 1, CORE: 50, RATIO: 50}, labels=LABEL, annotations={ALLOCATED_KEY: '{"gpu":[{"minor":0}]}'})
    answer = answered(raw)
    assert isinstance(answer, Allowed)
    assert ALLOCATED_KEY not in patched(raw, answer)["metadata"].get("annotations", {})
    assert any(ALLOCATED_KEY in each for each in answer.warnings)


def test_a_pod_that_cannot_be_read_is_refused_with_the_place() -> None:
    assert "labels" in reason(answered({"metadata": {"name": "p", "labels": []}, "spec": {"containers": []}}))
    assert "metadata" in reason(answered({"metadata": 3}))


def test_limits_come_with_the_translation_where_they_are_ours_to_give() -> None:
    auto = replace(POLICY, injects="auto")
    assert INJECTED in admitted(pod(HAMI), auto)["metadata"]["annotations"]
    assert "annotations" not in admitted(pod(HAMI), auto, ClusterFacts(lacks_hook=False))["metadata"]
    assert "annotations" not in admitted(pod(HAMI))["metadata"]
    always = replace(POLICY, injects="always")
    injected = admitted(pod(HAMI), always, ClusterFacts(lacks_hook=False))
    assert answered(injected, always) == Allowed()


def test_a_pod_that_cannot_be_limited_is_refused() -> None:
    raw = pod(HAMI)
    raw["spec"]["containers"][0]["volumeMounts"] = [{"name": "mine", "mountPath": "/etc/ld.so.preload"}]
    assert "/etc/ld.so.preload" in reason(answered(raw, replace(POLICY, injects="always")))
    assert isinstance(answered(raw), Allowed)
