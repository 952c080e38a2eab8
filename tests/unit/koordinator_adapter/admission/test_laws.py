"""Whatever comes in is answered: with another pod, with a refusal, or with nothing, and never with a failure."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from hami_plugins.model.units import MiB
from hami_plugins.wire import pods
from hami_plugins.wire.admission_review import Allowed, Denied
from hami_plugins.wire.koordinator import ALLOCATED_KEY, CORE, GPU, MEMORY, NPU_CORE, RATIO, SHARED
from koordinator_adapter.core.admission.mutation import mutate
from koordinator_adapter.core.admission.policy import ClusterFacts
from koordinator_adapter.core.admission.resolution import resolve
from koordinator_adapter.core.admission.validation import validate
from koordinator_adapter.core.translation.koordinator_reader import amounts_of
from koordinator_adapter.core.translation.vocabulary import INJECTED, ISOLATION, NO_CORE_LIMIT, OPT_IN, VISIBLE
from tests.unit.koordinator_adapter.admission.asking import POLICY, SCHEDULER, change, creation, patched
from tests.unit.koordinator_adapter.written import REGISTRY, pod

NAMES = (
    "nvidia.com/gpu",
    "nvidia.com/gpumem",
    "nvidia.com/gpumem-percentage",
    "nvidia.com/gpucores",
    "volcano.sh/vgpu-number",
    "volcano.sh/vgpu-memory",
    "volcano.sh/vgpu-cores",
    "huawei.com/Ascend910B3",
    "aws.amazon.com/neuron",
    "koordinator.sh/gpu-shared",
    "cpu",
    *(SHARED, CORE, MEMORY, RATIO, GPU, NPU_CORE),
)
AMOUNTS = st.one_of(
    st.integers(-3, 300),
    st.sampled_from(["0", "1", "500m", "1e30", "10Ei", "99999999999999999999", "-1", "0.5", "1Gi", "8000Mi", "x", ""]),
)
VALUES = st.one_of(st.text(max_size=8), st.sampled_from(["HAMi-core", "hami-core", "translate", "ignore", "{}", "10"]))
KEYS = st.sampled_from(
    [ISOLATION, OPT_IN, ALLOCATED_KEY, VISIBLE, INJECTED, NO_CORE_LIMIT, "nvidia.com/use-gpuuuid", "x"]
)
LIMITS = st.dictionaries(st.sampled_from(NAMES), AMOUNTS, max_size=5)
MAPS = st.dictionaries(KEYS, VALUES, max_size=4)
JUNK = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=5)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)),
    max_leaves=8,
)
INJECTING = replace(POLICY, injects="always")
FACTS = ClusterFacts(models=("NVIDIA-A100",), device_labels=True, card_memory=MiB(81_920))


@st.composite
def raws(draw: st.DrawFn) -> dict[str, Any]:
    """Pods as users may write them, some with nonsense in a place."""
    raw = pod(*draw(st.lists(LIMITS, min_size=1, max_size=2)), labels=draw(MAPS), annotations=draw(MAPS))
    place = draw(st.sampled_from(["", "", "", "", "metadata", "spec", "labels", "containers", "env", "volumes"]))
    if place in raw:
        raw[place] = draw(JUNK)
    elif place == "labels":
        raw["metadata"]["labels"] = draw(JUNK)
    elif place in {"containers", "volumes"}:
        raw["spec"][place] = draw(JUNK)
    elif place:
        raw["spec"]["containers"][0][place] = draw(JUNK)
    found: dict[str, Any] = json.loads(json.dumps(raw))
    return found


@given(raws())
@example(pod({"nvidia.com/gpu": 1, "koordinator.sh/gpu-shared": 0}))
@settings(max_examples=300, deadline=None)
def test_every_pod_is_answered_and_one_that_comes_in_is_complete(raw: dict[str, Any]) -> None:
    answer = mutate(creation(raw, user=SCHEDULER), REGISTRY, INJECTING, FACTS)
    assert isinstance(answer, Allowed | Denied)
    if not isinstance(answer, Allowed) or not answer.operations:
        return
    found = patched(raw, answer)
    again = mutate(creation(found, user=SCHEDULER), REGISTRY, INJECTING, FACTS)
    assert isinstance(again, Allowed), again
    # The only remaining change may be to remove a zero that a user wrote next to another scheduler's resources.
    assert {each["op"] for each in again.operations} <= {"remove"}
    settled = patched(found, again)
    assert _amounts(settled) == _amounts(found)
    last = mutate(creation(settled, user=SCHEDULER), REGISTRY, INJECTING, FACTS)
    assert isinstance(last, Allowed)
    assert not last.operations


def _amounts(raw: dict[str, Any]) -> list[Any]:
    """What each container asks of cards; in other words than Koordinator's none does."""
    found = [amounts_of(pods.pod(raw), at) for at in range(len(raw["spec"]["containers"]))]
    assert all(not name.startswith(("nvidia.com/", "volcano.sh/")) for each in found for name in each)
    return found


@given(raws(), raws())
@settings(max_examples=300, deadline=None)
def test_every_change_is_answered(before: dict[str, Any], after: dict[str, Any]) -> None:
    for request in (creation(after), change(before, after), change(before, after, user=SCHEDULER)):
        assert isinstance(validate(request, POLICY), Allowed | Denied)
        assert isinstance(resolve(request), Allowed | Denied)
