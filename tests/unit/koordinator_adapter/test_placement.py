"""Who places a pod and where, in other words: schedulers, profiles, labels of nodes, runtime classes."""

from __future__ import annotations

import pytest

from hami_plugins.wire.koordinator import CORE, RATIO, SHARED
from koordinator_adapter.core.translation.model import Fidelity, TranslationOptions
from koordinator_adapter.core.translation.vocabulary import (
    ISOLATION,
    SCHEDULER_LABEL,
    VENDOR_LABEL,
)
from tests.unit.koordinator_adapter.written import (
    KOORDINATOR_SLICE,
    LABEL,
    NVIDIA_NODES,
    SLICE,
    VOLCANO_SLICE,
    about,
    koordinators,
    limits_of,
    moved,
    pod,
    refused,
    stays,
    translated,
)

PROFILES = TranslationOptions(profiles={"binpack": "koord-binpack", "spread": "koord-spread"})


@pytest.mark.parametrize("name", ["", "default-scheduler", "hami-scheduler"])
def test_the_scheduler_of_the_target_gets_the_pod(name: str) -> None:
    assert moved(pod(SLICE, schedulerName=name), "volcano")["spec"]["schedulerName"] == "volcano"


def test_a_pod_of_a_third_scheduler_is_not_taken() -> None:
    assert refused(pod(SLICE, schedulerName="mine"), "volcano") == "schedulerName"
    raw = koordinators(labels={SCHEDULER_LABEL: "mine"})
    assert refused(raw, "hami") == "schedulerName"


@pytest.mark.parametrize(
    ("limits", "scheduler", "target"),
    [(SLICE, "volcano", "hami"), (VOLCANO_SLICE, "hami-scheduler", "volcano")],
)
def test_a_pod_in_the_words_of_the_target_with_another_scheduler_is_not_called_translated(
    limits: dict[str, object], scheduler: str, target: str
) -> None:
    assert refused(pod(limits, schedulerName=scheduler), target) == "schedulerName"
    assert translated(pod(limits, schedulerName="mine"), target).findings == ()


def test_a_pod_in_the_words_of_the_target_stays_with_another_scheduler_that_its_vendor_works_with() -> None:
    neuron = {"aws.amazon.com/neuron": 1}
    assert stays(pod(neuron, schedulerName="volcano"), "hami")
    assert refused(pod(neuron, schedulerName="koord-scheduler"), "hami") == "schedulerName"


def test_whole_cards_by_nvidias_name_are_volcanos_where_it_places_the_pod() -> None:
    raw = pod({"nvidia.com/gpu": 2}, schedulerName="volcano")
    assert translated(raw, "volcano").edits == ()
    there = moved(raw, "hami")
    assert (limits_of(there), there["spec"]["schedulerName"]) == ({"nvidia.com/gpu": 2}, "hami-scheduler")
    assert dict(limits_of(moved(raw, "koordinator"))) == {SHARED: 2, CORE: 200, RATIO: 200}
    assert refused(pod(SLICE, schedulerName="volcano"), "koordinator") == "schedulerName"


def test_the_label_that_names_koordinators_scheduler_goes() -> None:
    raw = koordinators(labels={SCHEDULER_LABEL: "koord-scheduler"})
    assert "labels" not in moved(raw, "hami")["metadata"]


def test_policies_become_profiles_where_they_are_known() -> None:
    raw = pod(SLICE, annotations={"hami.io/gpu-scheduler-policy": "binpack", "hami.io/node-scheduler-policy": "spread"})
    found = translated(raw, "koordinator", PROFILES)
    changed = moved(raw, "koordinator", PROFILES)
    assert changed["spec"]["schedulerName"] == "koord-binpack"
    assert "annotations" not in changed["metadata"]
    assert set(about(found, Fidelity.LOSSY)) == {"hami.io/gpu-scheduler-policy", "hami.io/node-scheduler-policy"}
    back = moved(changed, "hami", PROFILES)
    assert back["metadata"]["annotations"] == {"hami.io/gpu-scheduler-policy": "binpack"}
    assert "schedulerName" in about(translated(changed, "volcano", PROFILES), Fidelity.LOSSY)


def test_policies_are_given_up_with_a_word_elsewhere() -> None:
    raw = pod(SLICE, annotations={"hami.io/gpu-scheduler-policy": "topology-aware"})
    for target in ("volcano", "koordinator"):
        assert about(translated(raw, target), Fidelity.LOSSY) == ["hami.io/gpu-scheduler-policy"]


def test_limits_that_nobody_enforced_are_enforced_elsewhere_with_a_word() -> None:
    found = translated(pod(KOORDINATOR_SLICE), "hami")
    assert about(found, Fidelity.LOSSY) == [ISOLATION]


def test_limits_of_another_component_become_those_of_hami_core_elsewhere() -> None:
    raw = koordinators(labels={ISOLATION: "MPS"})
    for target in ("hami", "volcano"):
        (finding,) = translated(raw, target).findings
        assert (finding.about, finding.fidelity) == (ISOLATION, Fidelity.LOSSY)
        assert "'MPS' isolates the pod today" in finding.words
        assert "labels" not in moved(raw, target)["metadata"]
    assert translated(raw, "koordinator").findings == ()


def test_the_selector_of_isolating_nodes_goes_with_the_label() -> None:
    there = moved(pod(SLICE), "koordinator")
    assert there["spec"]["nodeSelector"] == {**LABEL, **NVIDIA_NODES}
    assert "nodeSelector" not in moved(there, "hami")["spec"]


def test_only_nodes_with_the_cards_of_the_pods_vendor_get_it_under_koordinator() -> None:
    for raw in (pod({"nvidia.com/gpu": 2}), pod({"volcano.sh/vgpu-number": 1})):
        there = moved(raw, "koordinator")
        assert there["spec"]["nodeSelector"] == NVIDIA_NODES
        assert "nodeSelector" not in moved(there, "hami")["spec"]
        assert there == moved(there, "koordinator")
    assert refused(pod(SLICE, nodeSelector={VENDOR_LABEL: "huawei"}), "koordinator") == VENDOR_LABEL


def test_the_runtime_class_is_added_where_none_is_named() -> None:
    assert moved(pod(SLICE), "koordinator")["spec"]["runtimeClassName"] == "nvidia"
    assert moved(pod(SLICE, runtimeClassName="mine"), "koordinator")["spec"]["runtimeClassName"] == "mine"
    assert "runtimeClassName" not in moved(pod(SLICE), "koordinator", TranslationOptions(runtime_class=""))["spec"]


@pytest.mark.parametrize("label", [ISOLATION, VENDOR_LABEL])
def test_labels_that_only_koordinators_nodes_have_do_not_come_along_in_silence(label: str) -> None:
    term = {"matchExpressions": [{"key": label, "operator": "In", "values": ["x"]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}
    found = translated(koordinators(affinity=affinity), "hami")
    assert about(found, Fidelity.LOSSY) == [label]
    chosen = moved(koordinators(nodeSelector={VENDOR_LABEL: "nvidia", "mine": "x"}), "hami")
    assert chosen["spec"]["nodeSelector"] == {"mine": "x"}


def test_koordinators_profiles_stay_as_they_are() -> None:
    raw = koordinators(schedulerName="koord-spread")
    assert moved(raw, "koordinator", PROFILES)["spec"]["schedulerName"] == "koord-spread"


def test_a_policy_becomes_a_scheduler_in_koordinator_and_is_given_up_elsewhere() -> None:
    raw = pod(SLICE, annotations={"hami.io/gpu-scheduler-policy": "binpack"})

    def reported(target: str, settings: TranslationOptions) -> list[str]:
        return [each.words for each in translated(raw, target, settings).findings if each.about.endswith("policy")]

    assert reported("koordinator", PROFILES) == [
        "binpack becomes the scheduler koord-binpack, for nodes and cards alike"
    ]
    for target, settings in (("volcano", PROFILES), ("koordinator", TranslationOptions())):
        (words,) = reported(target, settings)
        assert words.startswith("binpack is given up")


def test_a_label_of_nodes_stays_between_schedulers_that_are_not_koordinators() -> None:
    raw = pod(SLICE, nodeSelector={VENDOR_LABEL: "nvidia"})
    assert moved(raw, "volcano")["spec"]["nodeSelector"] == {VENDOR_LABEL: "nvidia"}
