"""What holds for every translation: nothing allocated changes, no limit is weakened in silence, and back is back."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st

from hami_plugins.engine import koordinator
from hami_plugins.engine.demand import WHOLE
from hami_plugins.engine.koordinator import CardRequest
from hami_plugins.model.dialect import Dialect
from hami_plugins.model.edits import PutEdit, made
from hami_plugins.model.pods import Pod
from hami_plugins.model.requests import Absolute, DeviceRequest
from hami_plugins.wire import pods
from hami_plugins.wire.koordinator import CORE, FPGA, MEMORY, RATIO, RDMA, SHARED
from koordinator_adapter.core.translation.choices import NoCoreLimit
from koordinator_adapter.core.translation.koordinator_reader import amounts_of
from koordinator_adapter.core.translation.model import Fidelity, TranslationFinding, TranslationOptions
from koordinator_adapter.core.translation.pods import translate
from koordinator_adapter.core.translation.reader import asked_of
from koordinator_adapter.core.translation.vocabulary import HAMI_CORE, ISOLATION
from tests.unit.koordinator_adapter.written import REGISTRY, Raw, limits_of, pod

counts = st.integers(1, 8)
sizes = st.integers(1, 200_000)
percents = st.integers(1, 100)
cores = st.integers(0, 100)
ids = st.sampled_from(["GPU-a", "GPU-b", "GPU-a,GPU-b"])
env = st.dictionaries(
    st.sampled_from(
        [
            "LIBCUDA_LOG_LEVEL",
            "GPU_CORE_UTILIZATION_POLICY",
            "ACTIVE_OOM_KILLER",
            "A",
            "CUDA_DISABLE_CONTROL",
            "CUDA_DEVICE_SM_LIMIT",
            "CUDA_DEVICE_MEMORY_LIMIT_0",
            "CUDA_TASK_PRIORITY",
        ]
    ),
    st.sampled_from(["0", "1", "force", "disable", "true", "false"]),
    max_size=2,
)
schedulers = st.sampled_from(["", "default-scheduler"])


@st.composite
def hamis(draw: st.DrawFn) -> Raw:
    """A pod in HAMi's words."""
    limits: dict[str, object] = {"nvidia.com/gpu": draw(counts)}
    kind = draw(st.sampled_from(["memory", "percent", "whole", "both"]))
    if kind in {"memory", "both"}:
        limits["nvidia.com/gpumem"] = draw(sizes)
    if kind in {"percent", "both"}:
        limits["nvidia.com/gpumem-percentage"] = draw(percents)
    if draw(st.booleans()):
        limits["nvidia.com/gpucores"] = draw(cores)
    if draw(st.booleans()):
        limits["nvidia.com/priority"] = draw(st.integers(0, 1))
    if draw(st.booleans()):
        limits[draw(st.sampled_from([RDMA, FPGA]))] = draw(st.sampled_from([1, 100, 150, 200]))
    annotations = draw(
        st.fixed_dictionaries(
            {},
            optional={
                "nvidia.com/use-gpuuuid": ids,
                "nvidia.com/nouse-gpuuuid": ids,
                "nvidia.com/numa-bind": st.sampled_from(["true", "false"]),
                "hami.io/gpu-scheduler-policy": st.sampled_from(["binpack", "spread"]),
                "mine": st.just("x"),
            },
        )
    )
    return pod(limits, annotations=annotations, env=draw(env), schedulerName=draw(schedulers))


@st.composite
def volcanos(draw: st.DrawFn) -> Raw:
    """A pod in Volcano's words."""
    limits: dict[str, object] = {"volcano.sh/vgpu-number": draw(counts)}
    if draw(st.booleans()):
        limits["volcano.sh/vgpu-memory"] = draw(sizes)
    if draw(st.booleans()):
        limits["volcano.sh/vgpu-memory-percentage"] = draw(percents)
    if draw(st.booleans()):
        limits["volcano.sh/vgpu-cores"] = draw(cores)
    annotations = draw(
        st.fixed_dictionaries(
            {},
            optional={"scheduling.k8s.io/group-name": st.just("g"), "scheduling.volcano.sh/queue-name": st.just("q")},
        )
    )
    return pod(limits, annotations=annotations, env=draw(env), schedulerName=draw(schedulers))


@st.composite
def koordinators(draw: st.DrawFn) -> Raw:
    """A pod in Koordinator's words, legal or not, with limits that are enforced or not."""
    count = draw(counts)
    limits: dict[str, object] = {}
    match draw(st.sampled_from(["slices", "together", "vendor", "odd"])):
        case "slices":
            limits[SHARED] = count
            memory, per = draw(st.sampled_from([(MEMORY, "size"), (RATIO, "percent")]))
            limits[memory] = f"{count * draw(sizes)}Mi" if per == "size" else count * draw(percents)
            if draw(st.booleans()):
                limits[CORE] = count * draw(percents)
        case "together":
            limits["koordinator.sh/gpu"] = draw(st.sampled_from([1, 50, 100, 150, 300]))
        case "vendor":
            limits["nvidia.com/gpu"] = count
        case _:
            limits = {
                name: draw(st.integers(0, 400))
                for name in draw(st.sets(st.sampled_from([SHARED, CORE, MEMORY, RATIO])))
            }
    if draw(st.booleans()):
        limits[draw(st.sampled_from([RDMA, FPGA]))] = draw(st.sampled_from([1, 100, 150, 200]))
    labels = draw(st.sampled_from([{}, {ISOLATION: HAMI_CORE}, {ISOLATION: "hami-core"}]))
    return pod(limits, labels=labels, env=draw(env), schedulerName="koord-scheduler")


every_pod = st.one_of(hamis(), volcanos(), koordinators())
every_target = st.sampled_from(list(Dialect))
every_setting = st.builds(
    TranslationOptions,
    device_labels=st.booleans(),
    no_core_limit=st.sampled_from([NoCoreLimit.SHARE, NoCoreLimit.ABSENT]),
    slices_per_card=st.integers(1, 100),
    groups=st.sampled_from([frozenset(), frozenset({"default/g"})]),
    quotas=st.sampled_from([frozenset(), frozenset({"q"})]),
)


def read(raw: Any, words: Dialect) -> DeviceRequest:
    """The one request of a pod."""
    found = asked_of(pods.pod(raw), words, REGISTRY)
    assert not isinstance(found, TranslationFinding)
    (asked,) = found
    return asked.request


def is_cardless(raw: Any, words: Dialect) -> bool:
    """Whether a pod asks for other devices alone."""
    return asked_of(pods.pod(raw), words, REGISTRY) == ()


@given(every_pod, every_target, every_setting)
def test_what_is_allocated_on_each_card_stays(raw: Raw, target: Dialect, settings: TranslationOptions) -> None:
    found = translate(raw, target, REGISTRY, settings)
    if found.source is None or found.fidelity is Fidelity.REFUSED or is_cardless(raw, found.source):
        assert not found.edits
        return
    before, after = read(raw, found.source), read(made(raw, found.edits), target)
    assert (after.count, after.memory) == (before.count, before.memory)
    if found.fidelity is Fidelity.LOSSLESS:
        assert after.cores == before.cores


@given(every_pod, every_setting)
def test_what_is_written_for_koordinator_is_legal_and_the_webhook_finds_nothing_to_do(
    raw: Raw, settings: TranslationOptions
) -> None:
    found = translate(raw, Dialect.KOORDINATOR, REGISTRY, settings)
    assume(found.source is not None and found.fidelity is not Fidelity.REFUSED)
    assert found.source is not None
    assume(not is_cardless(raw, found.source))
    after = made(raw, found.edits)
    amounts = amounts_of(pods.pod(after), 0)
    request = koordinator.request_of(amounts)
    assert isinstance(request, CardRequest)
    assert koordinator.normalised(amounts) == amounts
    assert not translate(after, Dialect.KOORDINATOR, REGISTRY, settings).edits
    if found.source is not Dialect.KOORDINATOR:
        assert amounts.get(CORE, 0) >= 1 or settings.no_core_limit is NoCoreLimit.ABSENT
        assert request.per_card.get(MEMORY, 0) % (1 << 20) == 0


@given(every_pod, every_target, every_setting)
def test_no_limit_is_weakened_in_silence(raw: Raw, target: Dialect, settings: TranslationOptions) -> None:
    found = translate(raw, target, REGISTRY, settings)
    assume(found.source is not None and found.source is not target and found.edits)
    assert found.source is not None
    assume(not is_cardless(raw, found.source))
    becomes = made(raw, found.edits)
    before, after = read(raw, found.source), pods.pod(becomes)
    if found.fidelity is Fidelity.LOSSLESS:
        assert limits_in_force(becomes, target) == limits_in_force(raw, found.source)
    if target is Dialect.KOORDINATOR and before.memory != WHOLE:
        assert after.labels[ISOLATION] == HAMI_CORE
        assert (ISOLATION, HAMI_CORE) in after.constraints.selector


def limits_in_force(raw: Raw, words: Dialect) -> tuple[object, ...]:
    """The limits of a container: memory and cores of each card, 0 for unlimited cores; empty without a limit.

    Koordinator's hook acts on the label and not on the switch, HAMi's plugin on the switch that is true, Volcano's on
    any. Limits of the container's own are compared as they stand.
    """
    request, env = read(raw, words), {each["name"]: each["value"] for each in after_env(raw)}
    if request.memory == WHOLE:
        return ("whole",)
    switch = env.get("CUDA_DISABLE_CONTROL")
    held = {
        Dialect.KOORDINATOR: pods.pod(raw).labels.get(ISOLATION) == HAMI_CORE,
        Dialect.HAMI: switch not in {"1", "true"},
        Dialect.VOLCANO: switch is None,
    }[words]
    if not held:
        return ()
    cores = 0 if env.get("GPU_CORE_UTILIZATION_POLICY") == "disable" or request.cores == 100 else request.cores
    own = {name: value for name, value in env.items() if name.startswith("CUDA_DEVICE")}
    return (request.memory, cores, own)


def after_env(raw: Any) -> list[dict[str, str]]:
    """The variables of the first container."""
    found: list[dict[str, str]] = raw["spec"]["containers"][0].get("env", [])
    return found


@given(every_pod, every_target, every_setting)
def test_network_cards_and_fpgas_stay_as_they_are_or_the_pod_is_refused(
    raw: Raw, target: Dialect, settings: TranslationOptions
) -> None:
    asked = {name: amount for name, amount in limits_of(raw).items() if name in {RDMA, FPGA}}
    found = translate(raw, target, REGISTRY, settings)
    assume(found.source is not None and found.fidelity is not Fidelity.REFUSED)
    after = limits_of(made(raw, found.edits))
    assert {name: amount for name, amount in after.items() if name in {RDMA, FPGA}} == asked
    assert not asked or target is Dialect.KOORDINATOR
    assert 150 not in asked.values()


@given(every_pod, every_setting)
def test_the_allocated_total_stays_in_every_total_that_koordinator_counts(
    raw: Raw, settings: TranslationOptions
) -> None:
    found = translate(raw, Dialect.KOORDINATOR, REGISTRY, settings)
    assume(found.source not in {None, Dialect.KOORDINATOR} and found.fidelity is not Fidelity.REFUSED)
    assert found.source is not None
    before, total = read(raw, found.source), amounts_of(pods.pod(made(raw, found.edits)), 0)
    assert total[SHARED] == before.count
    if isinstance(before.memory, Absolute):
        assert total[MEMORY] == before.count * before.memory.mib << 20
    else:
        assert total[RATIO] == before.count * before.memory.of_device
    if before.cores and before.memory != WHOLE:
        assert total[CORE] == before.count * before.cores


VENDOR = ("node.koordinator.sh/gpu-vendor", "nvidia")


@given(every_pod, every_target)
def test_lossless_forms_return_to_themselves(raw: Raw, target: Dialect) -> None:
    settings = TranslationOptions(
        device_labels=True, runtime_class="", groups=frozenset({"default/g"}), quotas=frozenset({"q"})
    )
    there = translate(raw, target, REGISTRY, settings)
    assume(there.source is not None and there.fidelity is Fidelity.LOSSLESS)
    assert there.source is not None
    assume(not is_cardless(raw, there.source))
    # only Koordinator could ever place a pod of HAMi's with network cards
    assume(there.source is Dialect.KOORDINATOR or limits_of(raw).keys().isdisjoint({RDMA, FPGA}))
    back = translate(made(raw, there.edits), there.source, REGISTRY, settings)
    assert back.fidelity is not Fidelity.REFUSED
    again = made(made(raw, there.edits), back.edits)
    assert read(again, there.source) == read(raw, there.source)
    canonical = translate(raw, there.source, REGISTRY, settings) if there.source is Dialect.KOORDINATOR else None
    was = pods.pod(made(raw, canonical.edits) if canonical else raw)
    now = pods.pod(again)
    if read(raw, there.source).memory != WHOLE:  # on whole cards the label means nothing
        assert now.labels == was.labels
        # the way back to Koordinator says whose cards it asks for
        added = {VENDOR} if there.source is Dialect.KOORDINATOR else set()
        assert set(now.constraints.selector) - added == set(was.constraints.selector) - added
    kept = {key for key, value in was.annotations.items() if value not in {"false", "GPU-a,GPU-b"}}
    assert {key: now.annotations.get(key) for key in kept} == {key: was.annotations[key] for key in kept}
    assert variables(now) == variables(was)


def variables(pod_now: Pod) -> frozenset[str]:
    """The variables of the first container as HAMi's webhook leaves them: it makes one of the priority."""
    container = pod_now.containers[0]
    return container.env | ({"CUDA_TASK_PRIORITY"} if "nvidia.com/priority" in container.limits else frozenset())


scalars = st.one_of(
    st.none(), st.booleans(), st.integers(-5, 5), st.text("a1-", max_size=2), st.floats(allow_nan=False)
)
anything = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=2),
        st.dictionaries(st.sampled_from(["name", "value", "matchExpressions", "key", "a"]), inner, max_size=2),
    ),
    max_leaves=6,
)
places = st.sampled_from(
    [
        ("metadata",),
        ("metadata", "labels"),
        ("metadata", "labels", ISOLATION),
        ("metadata", "annotations"),
        ("metadata", "annotations", "scheduling.koordinator.sh/device-allocate-hint"),
        ("metadata", "annotations", "nvidia.com/use-gputype"),
        ("spec",),
        ("spec", "containers"),
        ("spec", "containers", 0),
        ("spec", "containers", 0, "env"),
        ("spec", "containers", 0, "env", 0),
        ("spec", "containers", 0, "resources"),
        ("spec", "containers", 0, "resources", "limits"),
        ("spec", "containers", 0, "resources", "requests"),
        ("spec", "containers", 0, "resources", "limits", "nvidia.com/gpumem"),
        ("spec", "nodeSelector"),
        ("spec", "affinity"),
        ("spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms"),
        ("spec", "schedulerName"),
        ("spec", "initContainers"),
    ]
)


@given(every_pod, every_target, st.lists(st.tuples(places, anything), min_size=1, max_size=2))
def test_whatever_is_in_a_pod_is_translated_or_refused(
    raw: Raw, target: Dialect, broken: list[tuple[tuple[str | int, ...], Any]]
) -> None:
    for place, value in broken:
        with suppress(LookupError, ValueError):
            raw = made(raw, [PutEdit(place, value)])
    found = translate(raw, target, REGISTRY, TranslationOptions(device_labels=True, models=("a1",)))
    after = made(raw, found.edits)
    assert (after == raw) is (not found.edits)
