"""Differences of Enflame's hardware slices."""

from __future__ import annotations

import copy
from typing import Any

from hami_plugins.wire import drs
from tests import raw_objects
from tests.golden.rules import Answer, Case, Rule
from tests.golden.rules.common import containers, registry

_LIST = "hami.io/enflame-vgpu-devices-allocated"


def _slices_in_cycle(case: Case, ours: Answer) -> bool:
    """Placing container by container, with every slice of the earlier ones as a container of its own, gives theirs."""
    spec = case["pod"]["spec"]
    inits = len(spec.get("initContainers") or [])
    if not ours.allowed or len(containers(case["pod"])) < 2:
        return False
    segments: list[str] = []
    running: list[dict[str, Any]] = []
    for at in range(len(containers(case["pod"]))):
        answer = _answer(_alone(case, at, running if at >= inits else []))
        if not answer.fits:
            return not case["fits"] and case["reason"] == answer.reason
        segment = answer.annotations.get(_LIST, ";")
        segments.append(segment)
        if at >= inits and segment != ";":
            running.extend(_holders(case, segment))
    return bool(case["fits"]) and case["annotations"].get(_LIST) == "".join(segments)


def _answer(case: Case) -> Answer:
    from tests.golden import corpus  # noqa: PLC0415 - the judge imports the rules

    return corpus.answer(case, registry())


def _alone(case: Case, at: int, running: list[dict[str, Any]]) -> Case:
    """The case with one container of its pod, together with earlier containers' allocations."""
    changed = copy.deepcopy(case)
    spec = changed["pod"]["spec"]
    spec["containers"], spec["initContainers"] = [containers(changed["pod"])[at]], []
    changed["pods"] = [*changed["pods"], *running]
    return changed


def _holders(case: Case, segment: str) -> list[dict[str, Any]]:
    """Pods that hold what a container was given: one slot for each slice of the profile."""
    device, word, memory, cores = segment.rstrip(":;").split(",")
    text = case["node"]["metadata"]["annotations"][drs.CAPACITY_KEY]
    profiles, _ = drs.profiles_of(drs.CAPACITY_KEY, drs.decode_node(drs.CAPACITY_KEY, text))
    slices = next(each.slices for each in profiles if (each.memory, each.cores) == (int(memory), int(cores)))
    more = [f"{device},{word},0,0:;"] * (slices - 1)
    return [_pod(case, text, number) for number, text in enumerate([segment, *more])]


def _pod(case: Case, text: str, number: int) -> dict[str, Any]:
    metadata = {"namespace": "default", "annotations": {_LIST: text}}
    node = case["node"]["metadata"]["name"]
    return raw_objects.pod(f"slice-{number}", raw_objects.container(), metadata=metadata, node=node, phase="Running")


RULES = (
    Rule(
        name="a-slice-is-one-container",
        reason="While it places a pod HAMi counts the slices of the pod's earlier containers against a card's slots, "
        "and from the next pod on it counts each of them once, so its answer depends on how containers are spread over "
        "pods. We count each container once; the memory and cores of the profiles bound the slices.",
        aspects=frozenset({"fits", "reason", "devices", "annotations"}),
        holds=_slices_in_cycle,
        vendors=("enflame-drs",),
        examples=("enflame-drs-141",),
    ),
)
