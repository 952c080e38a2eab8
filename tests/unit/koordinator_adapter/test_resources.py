"""Amounts of cards in other words: what is the same, what is lost, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hami_plugins.engine.registry import Registry
from hami_plugins.model.dialect import Dialect
from hami_plugins.model.edits import made
from hami_plugins.model.units import MiB
from hami_plugins.vendors import builtin, volcano
from hami_plugins.wire import pods
from hami_plugins.wire.koordinator import CORE, MEMORY, RATIO, SHARED
from koordinator_adapter.core.translation import koordinator_reader
from koordinator_adapter.core.translation.choices import NoCoreLimit
from koordinator_adapter.core.translation.model import Fidelity, RequestedDevices, TranslationOptions, at
from koordinator_adapter.core.translation.pods import translate
from koordinator_adapter.core.translation.reader import complete
from koordinator_adapter.core.translation.vocabulary import (
    ISOLATION,
    NO_CORE_LIMIT,
)
from tests.unit.koordinator_adapter.written import (
    KOORDINATOR_SLICE,
    LABEL,
    NVIDIA_NODES,
    REGISTRY,
    SLICE,
    VOLCANO_SLICE,
    Raw,
    about,
    koordinators,
    limits_of,
    moved,
    pod,
    refused,
    translated,
)


@pytest.mark.parametrize("raw", [pod(SLICE), pod(VOLCANO_SLICE), koordinators()])
@pytest.mark.parametrize(
    ("target", "limits"), [("hami", SLICE), ("volcano", VOLCANO_SLICE), ("koordinator", KOORDINATOR_SLICE)]
)
def test_a_slice_is_the_same_in_every_dialect(raw: Raw, target: str, limits: dict[str, object]) -> None:
    assert translated(raw, target).fidelity is Fidelity.LOSSLESS
    assert dict(limits_of(moved(raw, target))) == limits


def test_a_pod_without_cards_is_left_alone() -> None:
    for target in ("hami", "volcano", "koordinator"):
        found = translated(pod({"cpu": 1}), target)
        assert (found.source, found.edits, found.findings) == (None, (), ())


def test_a_pod_that_asks_for_zero_cards_is_left_alone_too() -> None:
    assert not translated(pod({"nvidia.com/gpu": 0}), "koordinator").findings


def test_new_names_stand_where_the_old_ones_stood_and_in_requests_too() -> None:
    raw = pod({"cpu": 1, **SLICE, "memory": "1Gi"})
    raw["spec"]["containers"][0]["resources"]["requests"] = {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 3000}
    resources = moved(raw, "koordinator")["spec"]["containers"][0]["resources"]
    assert list(resources["limits"]) == ["cpu", SHARED, MEMORY, CORE, "memory"]
    assert resources["requests"] == {SHARED: 1, MEMORY: "3000Mi", CORE: 30}


def test_amounts_that_only_requests_name_become_limits() -> None:
    raw = pod({})
    raw["spec"]["containers"][0]["resources"] = {"requests": SLICE}
    resources = moved(raw, "koordinator")["spec"]["containers"][0]["resources"]
    assert resources["limits"] == resources["requests"] == KOORDINATOR_SLICE


def test_a_priority_alone_asks_for_no_card() -> None:
    found = translated(pod({"nvidia.com/priority": 1}), "koordinator")
    assert (found.edits, found.findings) == ((), ())


def test_a_pod_that_cannot_be_read_is_refused_with_the_place() -> None:
    raw = pod(SLICE)
    raw["spec"]["containers"][0]["env"] = 7
    assert "env" in refused(raw, "koordinator")


@pytest.mark.parametrize(
    ("limits", "what"),
    [
        ({"nvidia.com/gpu": 1, "volcano.sh/vgpu-number": 1}, "resources"),
        ({"koordinator.sh/gpu": 50, "volcano.sh/vgpu-number": 1}, "resources"),
        ({"nvidia.com/gpu": -1}, "nvidia.com/gpu"),
        ({"nvidia.com/gpu": "500m"}, "nvidia.com/gpu"),
        ({"koordinator.sh/gpu-memory-ratio": "0.5"}, RATIO),
        ({"nvidia.com/gpu": 2**40}, "pod"),
        ({"nvidia.com/gpu": 1, "nvidia.com/gpumem": 2**40}, "pod"),
        ({"nvidia.com/gpu": 1, "nvidia.com/gpumem-percentage": 150}, "pod"),
        ({"nvidia.com/gpu": 1, "nvidia.com/shared": 1}, "nvidia.com/shared"),
        ({"hygon.com/dcunum": 1}, "hygon.com/dcunum"),
    ],
)
def test_amounts_that_mean_nothing_are_refused(limits: dict[str, object], what: str) -> None:
    assert refused(pod(limits), "koordinator") == what


@pytest.mark.parametrize(
    ("limits", "what"),
    [
        ({SHARED: 1, MEMORY: "9000Ti"}, MEMORY),
        ({SHARED: 2**40, RATIO: 50 * 2**40}, SHARED),
        ({"koordinator.sh/rdma": 1}, "koordinator.sh/rdma"),
        ({"koordinator.sh/teapot": 1}, "koordinator.sh/teapot"),
        ({"huawei.com/npu-core": 2, "koordinator.sh/gpu-memory-ratio": 100}, "huawei.com/npu-core"),
        ({CORE: 101, RATIO: 50}, "resources"),
        ({"koordinator.sh/gpu": 150}, "resources"),
    ],
)
def test_koordinators_words_that_mean_nothing_are_refused(limits: dict[str, object], what: str) -> None:
    assert refused(koordinators(limits), "hami") == what


@pytest.mark.parametrize(
    ("limits", "about_", "remedy"),
    [
        ({SHARED: 2, MEMORY: "16000"}, MEMORY, "write 16000Mi if MiB were meant"),
        ({SHARED: 1, MEMORY: "9000Pi"}, MEMORY, "ask for less"),
        ({SHARED: 3_000_000_000, MEMORY: "9000Pi"}, SHARED, "ask for fewer"),
    ],
)
def test_an_amount_that_no_card_has_is_refused_with_what_to_write(
    limits: dict[str, object], about_: str, remedy: str
) -> None:
    (found,) = translated(koordinators(limits), "hami").findings
    assert (found.about, found.remedy) == (about_, remedy)


def test_the_scheduler_s_own_words_are_given_for_its_refusals() -> None:
    (found,) = translated(koordinators({"koordinator.sh/gpu": 150}), "hami").findings
    assert "invalid resource unit koordinator.sh/gpu: 150" in found.words


def test_requests_and_limits_that_differ_are_refused() -> None:
    raw = koordinators()
    raw["spec"]["containers"][0]["resources"]["requests"] = {SHARED: 2}
    assert refused(raw, "hami") == SHARED


def test_halves_in_two_containers_are_refused_with_their_sum() -> None:
    (found,) = translated(pod({RATIO: 50}, {RATIO: 50}), "hami").findings
    assert f"{RATIO} 100" in found.words


HALF: Raw = {SHARED: 1, CORE: 50, RATIO: 50}


def test_a_pod_whose_init_container_and_application_ask_for_half_a_card_is_left_as_it_is_by_koordinator() -> None:
    raw = koordinators(HALF)
    raw["spec"]["initContainers"] = [{"name": "warm-up", "resources": {"limits": HALF}}]
    assert translated(raw, "koordinator").fidelity is Fidelity.LOSSLESS
    found = moved(raw, "koordinator")["spec"]
    assert (found["initContainers"], found["containers"]) == (raw["spec"]["initContainers"], raw["spec"]["containers"])


def test_each_application_container_is_completed_as_koordinators_webhook_does() -> None:
    raw = pod({"koordinator.sh/gpu": 50}, {"koordinator.sh/gpu": 50}, labels=LABEL)
    raw["spec"]["nodeSelector"] = dict(LABEL)
    found = moved(raw, "koordinator")
    assert [dict(limits_of(found, at)) for at in range(2)] == [HALF, HALF]


def test_a_sum_that_koordinator_refuses_is_refused_in_its_words() -> None:
    (found,) = translated(pod({"koordinator.sh/gpu": 50}, {"koordinator.sh/gpu": 101}), "koordinator").findings
    assert "Koordinator refuses the pod: invalid resource device requests" in found.words


def test_requests_that_differ_from_limits_are_refused_in_any_container() -> None:
    raw = pod(HALF, HALF)
    raw["spec"]["containers"][1]["resources"]["requests"] = {**HALF, CORE: 40}
    (found,) = translated(raw, "koordinator").findings
    assert found.path == ("spec", "containers", 1, "resources", "requests", CORE)


def test_numbers_of_npus_are_those_of_one_container() -> None:
    template = {SHARED: 1, "huawei.com/npu-core": 1, "huawei.com/npu-cpu": 1, MEMORY: "3Gi"}
    assert refused(pod(template, template), "koordinator") == "containers"


def test_hami_and_volcano_both_know_cards_of_several_containers() -> None:
    found = moved(pod(SLICE, {"cpu": 1}, SLICE), "volcano")
    assert [dict(limits_of(found, at)) for at in range(3)] == [VOLCANO_SLICE, {"cpu": 1}, VOLCANO_SLICE]
    assert refused(pod(SLICE, SLICE), "koordinator") == "containers"


def test_the_usual_agent_of_volcano_starts_no_pod_with_cards_in_several_containers() -> None:
    (finding,) = translated(pod(SLICE, {"cpu": 1}, SLICE), "volcano").findings
    assert (finding.fidelity, finding.about) == (Fidelity.LOSSY, "containers")
    assert "containers c0 and c2" in finding.words
    assert "volcano-vgpu-device-plugin up to 1.12" in finding.words
    assert translated(pod(SLICE, {"cpu": 1}), "volcano").findings == ()


@pytest.mark.parametrize(
    ("more", "what"), [({}, "an init container"), ({"restartPolicy": "Always"}, "a sidecar container")]
)
def test_volcano_assigns_no_card_to_a_container_beside_the_applications(more: Raw, what: str) -> None:
    raw = pod(SLICE)
    raw["spec"]["initContainers"] = [{"name": "warm-up", "resources": {"limits": SLICE}, **more}]
    (finding,) = translated(raw, "volcano").findings
    assert finding.fidelity is Fidelity.LOSSY
    assert finding.path == ("spec", "initContainers", 0)
    assert f"container warm-up is {what}" in finding.words
    assert limits_of(moved(raw, "volcano")) == VOLCANO_SLICE


def test_hami_assigns_cards_to_init_containers_as_well() -> None:
    raw = pod(VOLCANO_SLICE)
    raw["spec"]["initContainers"] = [{"name": "warm-up", "resources": {"limits": VOLCANO_SLICE}}]
    assert translated(raw, "hami").fidelity is Fidelity.LOSSLESS


def test_init_containers_are_found_where_they_stand() -> None:
    raw = pod({"cpu": 1})
    raw["spec"]["initContainers"] = [{"name": "i", "resources": {"limits": SLICE}}]
    found = moved(raw, "koordinator")
    assert found["spec"]["initContainers"][0]["resources"]["limits"] == KOORDINATOR_SLICE


def test_whole_cards_by_nvidias_own_name_are_koordinators_where_it_places_the_pod() -> None:
    raw = pod({"nvidia.com/gpu": 2}, schedulerName="koord-scheduler")
    assert dict(limits_of(moved(raw, "volcano"))) == {"volcano.sh/vgpu-number": 2, "volcano.sh/vgpu-cores": 100}
    assert dict(limits_of(moved(raw, "koordinator"))) == {SHARED: 2, CORE: 200, RATIO: 200}


@pytest.mark.parametrize(
    ("limits", "selector"),
    [
        ({"amd.com/gpu": 1}, {}),
        ({"dcu.com/gpu": 1}, {}),
        (KOORDINATOR_SLICE, {"node.koordinator.sh/gpu-vendor": "kunlun"}),
    ],
)
def test_cards_of_other_makers_never_become_nvidias(limits: dict[str, object], selector: dict[str, str]) -> None:
    raw = pod(limits, labels=LABEL, schedulerName="koord-scheduler", nodeSelector=selector)
    for target in ("hami", "volcano"):
        assert refused(raw, target)
    assert not translated(raw, "koordinator").edits


def test_other_cards_stay_where_the_target_schedules_them_already() -> None:
    raw = pod({"aws.amazon.com/neuron": 1}, schedulerName="volcano")
    found = translated(raw, "volcano")
    assert (found.edits, found.findings) == ((), ())
    assert refused(raw, "koordinator") == "aws.amazon.com/neuron"
    assert refused(pod(SLICE, {"hygon.com/dcunum": 1}), "volcano") == "hygon.com/dcunum"
    assert refused(pod(SLICE, {"hygon.com/dcunum": 1}, schedulerName="volcano"), "volcano") == "containers"


def test_the_label_of_nvidias_nodes_says_nothing_new() -> None:
    raw = koordinators(nodeSelector={"node.koordinator.sh/gpu-vendor": "nvidia"})
    assert dict(limits_of(moved(raw, "hami"))) == SLICE


def test_cores_that_are_totals_of_several_cards_are_no_percentage_of_one() -> None:
    raw = pod({"iluvatar.ai/BI-V100-vgpu": 2, "iluvatar.ai/BI-V100.vCore": 200, "iluvatar.ai/BI-V100.vMem": 128})
    assert translated(raw, "hami").findings == ()
    assert refused(raw, "koordinator") == "iluvatar.ai/BI-V100-vgpu"


def test_koordinators_own_pods_are_normalised() -> None:
    raw = pod({"koordinator.sh/gpu": 50}, labels=LABEL)
    found = moved(raw, "koordinator")
    assert dict(limits_of(found)) == {SHARED: 1, CORE: 50, RATIO: 50}
    assert found["spec"]["schedulerName"] == "koord-scheduler"
    assert found["spec"]["nodeSelector"] == LABEL
    assert not translated(found, "koordinator").edits


def test_what_koordinator_counts_is_never_changed_for_itself() -> None:
    every: list[dict[str, object]] = [
        {SHARED: 1, CORE: 50, RATIO: 100},
        {SHARED: 2, MEMORY: 33 << 20},
        {SHARED: 2, MEMORY: "16Gi", CORE: 20},
    ]
    for limits in every:
        raw = koordinators(limits)
        found = translated(raw, "koordinator")
        assert dict(limits_of(made(raw, found.edits))) == limits
    assert dict(limits_of(moved(koordinators({RATIO: 200}), "koordinator"))) == {RATIO: 200, SHARED: 2}


def test_koordinators_pods_without_the_label_stay_without() -> None:
    raw = pod(KOORDINATOR_SLICE)
    found = translated(raw, "koordinator")
    assert ISOLATION in about(found, Fidelity.LOSSLESS)
    assert "labels" not in made(raw, found.edits)["metadata"]  # type: ignore[operator]


def test_deprecated_names_are_read_and_not_written() -> None:
    raw = koordinators({"kubernetes.io/gpu-core": 30, "kubernetes.io/gpu-memory": "3000Mi"})
    assert dict(limits_of(moved(raw, "koordinator"))) == KOORDINATOR_SLICE
    assert "kubernetes.io/gpu-core" in about(translated(raw, "koordinator"), Fidelity.LOSSLESS)


def test_whole_cards_are_never_limited() -> None:
    found = moved(pod({"nvidia.com/gpu": 2}), "koordinator")
    assert "labels" not in found["metadata"]
    assert found["spec"]["nodeSelector"] == NVIDIA_NODES
    back = translated(koordinators({SHARED: 2, CORE: 50, RATIO: 200}), "hami")
    assert CORE in about(back, Fidelity.LOSSY)


def test_volcanos_cards_without_cores_are_not_exclusive_in_hami() -> None:
    raw = pod({"volcano.sh/vgpu-number": 1})
    assert dict(limits_of(moved(raw, "hami"))) == {"nvidia.com/gpu": 1, "nvidia.com/gpucores": 0}
    assert CORE in about(translated(raw, "koordinator"), Fidelity.LOSSY)
    assert dict(limits_of(moved(moved(raw, "hami"), "volcano"))) == {"volcano.sh/vgpu-number": 1}


def test_all_cores_of_part_of_a_card_are_said_to_be_less_exclusive() -> None:
    raw = pod({**SLICE, "nvidia.com/gpucores": 100})
    assert CORE in about(translated(raw, "koordinator"), Fidelity.LOSSY)


def test_bytes_that_are_no_mebibytes_are_cut_off_with_a_word() -> None:
    raw = koordinators({SHARED: 2, MEMORY: (6000 << 20) + 1, CORE: 20})
    assert MEMORY in about(translated(raw, "hami"), Fidelity.LOSSY)
    assert limits_of(moved(raw, "hami"))["nvidia.com/gpumem"] == 3000


def test_percentages_are_said_to_be_hard_to_get_from_volcano() -> None:
    raw = pod({"nvidia.com/gpu": 1, "nvidia.com/gpumem-percentage": 50, "nvidia.com/gpucores": 5})
    found = translated(raw, "volcano")
    assert about(found, Fidelity.LOSSY) == ["volcano.sh/vgpu-memory-percentage"]


@pytest.mark.parametrize("limits", [SLICE, VOLCANO_SLICE])
def test_the_memory_that_is_not_looked_at_is_named(limits: dict[str, object]) -> None:
    name = "nvidia.com/gpumem-percentage" if limits is SLICE else "volcano.sh/vgpu-memory-percentage"
    found = translated(pod({**limits, name: 50}), "koordinator")
    unused = name if limits is SLICE else "volcano.sh/vgpu-memory"
    assert unused in about(found, Fidelity.LOSSLESS)


def test_the_unit_of_memory_has_to_divide() -> None:
    options = replace(volcano.SPEC.options, memory_factor=1024)
    registry = Registry(replace(each, options=options) if each.name == volcano.SPEC.name else each for each in REGISTRY)
    found = translate(pod(SLICE), Dialect.VOLCANO, registry, TranslationOptions())
    assert found.findings[0].about == "volcano.sh/vgpu-memory"
    whole = pod({**SLICE, "nvidia.com/gpumem": 4096})
    changed = made(whole, translate(whole, Dialect.VOLCANO, registry, TranslationOptions()).edits)
    assert limits_of(changed)["volcano.sh/vgpu-memory"] == 4


def test_more_than_a_card_has_is_refused_where_that_is_known() -> None:
    assert refused(pod(SLICE), "koordinator", TranslationOptions(card_memory=MiB(2048))) == MEMORY
    assert translated(pod(SLICE), "koordinator", TranslationOptions(card_memory=MiB(4096))).edits


UNLIMITED = {"nvidia.com/gpu": 2, "nvidia.com/gpumem": 3000}


def test_no_limit_of_cores_returns_to_itself() -> None:
    raw = pod(UNLIMITED)
    there = moved(raw, "koordinator")
    assert limits_of(there)[CORE] == 20
    assert there["metadata"]["annotations"] == {NO_CORE_LIMIT: "10"}
    back = moved(there, "hami")
    assert dict(limits_of(back)) == UNLIMITED
    assert back["metadata"] == raw["metadata"]
    assert "env" not in back["spec"]["containers"][0]


def test_a_policy_that_is_there_is_overruled_with_a_word() -> None:
    raw = pod(UNLIMITED, env={"GPU_CORE_UTILIZATION_POLICY": "force"})
    found = translated(raw, "koordinator")
    assert "GPU_CORE_UTILIZATION_POLICY" in about(found, Fidelity.LOSSY)
    env = made(raw, found.edits)["spec"]["containers"][0]["env"]  # type: ignore[index]
    assert env == [{"name": "GPU_CORE_UTILIZATION_POLICY", "value": "disable"}]
    again = pod(UNLIMITED, env={"GPU_CORE_UTILIZATION_POLICY": "disable"})
    assert "GPU_CORE_UTILIZATION_POLICY" in about(translated(again, "koordinator"), Fidelity.LOSSLESS)


def test_a_mark_that_says_something_else_is_dropped_and_the_cores_stay() -> None:
    raw = koordinators(annotations={NO_CORE_LIMIT: "99"})
    found = moved(raw, "hami")
    assert dict(limits_of(found)) == SLICE
    assert "annotations" not in found["metadata"]


def test_no_limit_of_cores_can_be_set_to_book_nothing() -> None:
    found = translated(pod(UNLIMITED), "koordinator", TranslationOptions(no_core_limit=NoCoreLimit.ABSENT))
    assert about(found, Fidelity.LOSSY) == [CORE]
    back = translated(koordinators({SHARED: 1, MEMORY: "3000Mi"}), "volcano")
    assert about(back, Fidelity.LOSSY) == [CORE]


def test_no_limit_of_cores_can_be_set_to_take_the_card() -> None:
    raw, settings = pod(UNLIMITED), TranslationOptions(no_core_limit=NoCoreLimit.WHOLE)
    assert dict(limits_of(moved(raw, "koordinator", settings))) == {SHARED: 2, CORE: 200, RATIO: 200}
    assert about(translated(raw, "koordinator", settings), Fidelity.LOSSY) == [CORE]


def test_the_priority_on_a_card_is_a_resource_or_a_variable() -> None:
    raw = pod({**SLICE, "nvidia.com/priority": 1})
    there = moved(raw, "koordinator")
    assert there["spec"]["containers"][0]["env"] == [{"name": "CUDA_TASK_PRIORITY", "value": "1"}]
    assert dict(limits_of(moved(there, "hami"))) == {**SLICE, "nvidia.com/priority": 1}
    assert moved(there, "volcano")["spec"]["containers"][0]["env"]
    strange = koordinators(env={"CUDA_TASK_PRIORITY": "high"})
    assert "nvidia.com/priority" not in limits_of(moved(strange, "hami"))
    both = pod({**SLICE, "nvidia.com/priority": 1}, env={"CUDA_TASK_PRIORITY": "0"})
    env = moved(both, "koordinator")["spec"]["containers"][0]["env"]
    assert env == [{"name": "CUDA_TASK_PRIORITY", "value": "1"}]  # HAMi's webhook writes it behind the other
    same = pod({**SLICE, "nvidia.com/priority": 1}, env={"CUDA_TASK_PRIORITY": "1"})
    assert moved(same, "koordinator")["spec"]["containers"][0]["env"] == env


def test_a_slice_as_large_as_some_card_is_told_because_nothing_limits_its_cores_there() -> None:
    sizes = TranslationOptions(card_sizes=frozenset({MiB(3000), MiB(81_920)}), card_memory=MiB(81_920))
    found = translated(pod(SLICE), "koordinator", sizes)
    assert about(found, Fidelity.LOSSY) == [CORE]
    assert "not to 30 % of cores" in found.findings[-1].words
    for less in ({"nvidia.com/gpumem": 2999}, {"nvidia.com/gpucores": 100}, {"nvidia.com/gpucores": 0}):
        found = translated(pod(SLICE | less), "koordinator", sizes)
        assert not any("koordlet" in each.words for each in found.findings)
    alone = TranslationOptions(card_memory=MiB(3000))
    assert about(translated(pod(SLICE), "koordinator", alone), Fidelity.LOSSY) == [CORE]


@pytest.mark.parametrize(("policy", "cores"), [("disable", None), ("force", 10), (None, 10)])
def test_booked_cores_are_a_limit_once_somebody_enforces_them(policy: str | None, cores: int | None) -> None:
    env = {"GPU_CORE_UTILIZATION_POLICY": policy} if policy else {}
    raw = koordinators({SHARED: 1, MEMORY: "3000Mi", CORE: 10}, annotations={NO_CORE_LIMIT: "10"}, env=env)
    becomes = moved(raw, "hami")
    assert limits_of(becomes).get("nvidia.com/gpucores") == cores
    assert "annotations" not in becomes["metadata"]
    assert ("env" in becomes["spec"]["containers"][0]) is (policy == "force")


@pytest.mark.parametrize(("slices", "booked"), [(1, 100), (3, 34), (7, 15), (10, 10), (100, 1)])
def test_no_more_places_are_booked_on_a_card_than_it_has(slices: int, booked: int) -> None:
    after = moved(
        pod({"nvidia.com/gpu": 2, "nvidia.com/gpumem": 100}), "koordinator", TranslationOptions(slices_per_card=slices)
    )
    assert limits_of(after)[CORE] == 2 * booked
    assert booked * (slices + 1) > 100


def test_a_priority_that_hami_cannot_carry_stays_a_variable() -> None:
    for text, carried in (("999", 999), ("1000", None)):
        found = moved(koordinators(env={"CUDA_TASK_PRIORITY": text}), "hami")
        assert limits_of(found).get("nvidia.com/priority") == carried


def test_a_policy_of_cores_that_the_translation_has_not_written_stays() -> None:
    raw = koordinators({SHARED: 1, MEMORY: "3000Mi"}, env={"GPU_CORE_UTILIZATION_POLICY": "force"})
    raw["metadata"]["annotations"] = {NO_CORE_LIMIT: "many"}
    found = moved(raw, "hami")
    assert "annotations" not in found["metadata"]
    assert found["spec"]["containers"][0]["env"] == [{"name": "GPU_CORE_UTILIZATION_POLICY", "value": "force"}]


def test_several_slices_stay_several_in_koordinators_own_dialect() -> None:
    raw = koordinators({SHARED: 2, MEMORY: "6000Mi", CORE: 60})
    assert dict(limits_of(moved(raw, "koordinator"))) == {SHARED: 2, MEMORY: "6000Mi", CORE: 60}


def test_all_memory_without_a_limit_of_cores_is_reported_as_such() -> None:
    for cores, words in ((0, "all memory with no limit"), (40, "all memory with 40 %")):
        raw = pod({"volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-cores": cores})
        found = [each.words for each in translated(raw, "koordinator").findings if each.about == CORE]
        assert any(each.startswith(words) for each in found), found


def test_one_percent_of_cores_on_a_card_with_all_its_memory_is_reported() -> None:
    raw = pod({"nvidia.com/gpu": 1, "nvidia.com/gpumem": 81920, "nvidia.com/gpucores": 1})
    found = translated(raw, "koordinator", TranslationOptions(card_sizes=frozenset({MiB(81920)})))
    assert CORE in about(found, Fidelity.LOSSY)


def test_percentages_in_volcanos_dialect_are_read_by_a_completed_registry() -> None:
    raw = pod({"volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-memory-percentage": 50})
    found = translate(raw, Dialect.HAMI, complete(builtin()), TranslationOptions())
    assert limits_of(made(raw, found.edits)) == {"nvidia.com/gpu": 1, "nvidia.com/gpumem-percentage": 50}


def test_resources_of_two_schedulers_in_one_pod_are_refused() -> None:
    assert refused(pod({SHARED: 1, RATIO: 50, "nvidia.com/gpumem": 3000}), "volcano") == "resources"


def test_of_several_containers_the_application_asks_first() -> None:
    raw = pod(KOORDINATOR_SLICE, {**KOORDINATOR_SLICE, CORE: 20})
    raw["spec"]["initContainers"] = [{"name": "i", "resources": {"limits": dict(KOORDINATOR_SLICE)}}]
    found = koordinator_reader.asked_of(pods.pod(raw))
    assert isinstance(found, RequestedDevices)
    assert (koordinator_reader.asking_of(pods.pod(raw)), found.container) == ([1, 2, 0], 1)


def test_there_is_nothing_behind_the_end_of_a_list() -> None:
    assert (at(["a"], (0,)), at(["a"], (1,))) == ("a", None)
