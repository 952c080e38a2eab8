"""Differences that concern every vendor of HAMi."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable
from functools import cache, partial
from typing import Any

from hami_plugins.engine.demand import demand_of
from hami_plugins.engine.registry import Registry
from hami_plugins.errors import InvalidRequestError
from hami_plugins.model.pods import Pod
from hami_plugins.vendors import builtin
from hami_plugins.wire import objects
from tests.golden.rules import Answer, Case, Rule, all_rules

ADMITTED = frozenset({"admission", "mutated"})
"""What upstream says of a pod that it claims for a request it then takes for none."""

_STABLE_UP_TO = 12

_LISTS = re.compile(r"devices-to-allocate$|-allocated$")


@cache
def registry() -> Registry:
    """The vendors as the judge uses them."""
    return builtin()


def answers_after(case: Case, change: Callable[[Case], None], ignoring: frozenset[str] = frozenset()) -> bool:
    """Whether we would say what upstream said (some aspects left out), had the case been what the defect made of it."""
    from tests.golden import corpus  # noqa: PLC0415 - the judge imports the rules

    changed = copy.deepcopy(case)
    change(changed)
    if changed == case:
        return False
    ours = corpus.answer(changed, registry())
    aspects = corpus.differing(changed, ours) - ignoring
    # The other defects of upstream are still there; each change is made once, so this comes to an end.
    return not aspects or corpus.explained(changed, ours, aspects, all_rules()) is not None


def containers(pod: dict[str, Any]) -> list[dict[str, Any]]:
    """All containers of a raw pod, init containers first."""
    spec = pod["spec"]
    return [*(spec.get("initContainers") or []), *(spec.get("containers") or [])]


def _idle(case: Case, ours: Answer) -> bool:
    """Upstream's lists are ours without the empty entries, and the containers of MIG places shift with them."""
    if len(case["answers"]) != 1 or not case["fits"] or not ours.fits:
        return False
    theirs = case["annotations"]
    if set(theirs) != set(ours.annotations):
        return False
    shift: dict[int, int] = {}
    for key, text in ours.annotations.items():
        if _LISTS.search(key):
            segments = text.split(";")[:-1]
            spoken = [at for at, segment in enumerate(segments) if segment]
            if len(spoken) == len(segments) or "".join(f"{segments[at]};" for at in spoken) != theirs[key]:
                return False
            shift = {at: to for to, at in enumerate(spoken)}
    for key, text in ours.annotations.items():
        if key == "hami.io/vgpu-mig-allocations":
            moved = [{**each, "containerIndex": shift[each["containerIndex"]]} for each in json.loads(text)]
            if moved != json.loads(theirs[key]):
                return False
        elif not _LISTS.search(key) and theirs[key] != text:
            return False
    return True


def _unusable(case: Case, ours: Answer) -> bool:
    """We refuse an amount that means nothing; upstream takes the container for one that asks for nothing."""
    return bool(ours.refusal) and answers_after(case, _without_unusable, ADMITTED)


def _without_unusable(case: Case) -> None:
    for at, container in enumerate(containers(case["pod"])):
        for spec in registry():
            if not _refuses(case, at, spec.name):
                continue
            for amounts in (container.get("resources") or {}).values():
                for resource in spec.resources.all():
                    amounts.pop(resource, None)


def _refuses(case: Case, at: int, vendor: str) -> bool:
    pod = objects.pod(case["mutated"] or case["pod"], default_requests=False)
    alone = Pod(namespace=pod.namespace, name=pod.name, annotations=pod.annotations, containers=(pod.containers[at],))
    try:
        demand_of(alone, Registry([registry()[vendor]]))  # type: ignore[index]
    except InvalidRequestError:
        return True
    return False


def _wrapped_cores(case: Case, ours: Answer) -> bool:
    """Upstream takes cores outside of int32 and below zero as they are: every check passes, and it books them."""
    return bool(ours.refusal) and any(
        answers_after(case, change, ADMITTED) for change in (_with_cores_of_zero, _chosen_last_with_cores_of_zero)
    )


def _with_cores_of_zero(case: Case) -> None:
    for container in containers(case["pod"]):
        for amounts in (container.get("resources") or {}).values():
            for spec in registry():
                asked = amounts.get(spec.resources.cores)
                if asked is not None and re.fullmatch(r"-?\d+", asked) and not 0 <= int(asked) < 2**31:
                    amounts[spec.resources.cores] = "0"
    for recorded in [case, *case["answers"]]:
        for key, text in (recorded.get("annotations") or {}).items():
            recorded["annotations"][key] = re.sub(r"(?<=[,_])-\d+(?=[:_])", "0", text)


def _unstable_sort(case: Case, ours: Answer) -> bool:
    """Go's sort keeps the order of equals only up to twelve elements. Beyond, upstream's choice among equal cards is
    its sort's: listing the cards it chose last (we and it try the last of equals first) must give its answer."""
    return answers_after(case, _chosen_last)


def _chosen_last_with_cores_of_zero(case: Case) -> None:
    _with_cores_of_zero(case)
    _chosen_last(case)


def _chosen_last(case: Case) -> None:
    texts = [
        text
        for key, text in (case.get("annotations") or {}).items()
        if key.startswith("hami.io/") and key.endswith("-allocated")
    ]
    chosen = [entry.split(",")[0] for text in texts for entry in re.split("[:;]", text) if entry]
    rank = {name: -at for at, name in reversed(list(enumerate(chosen)))}
    annotations = case["node"]["metadata"].get("annotations") or {}
    for key, text in annotations.items():
        if "register" not in key:
            continue
        if text.startswith("["):
            devices = json.loads(text)
            if len(devices) > _STABLE_UP_TO:
                annotations[key] = json.dumps(sorted(devices, key=lambda each: rank.get(each["id"], -len(rank) - 1)))
        else:
            records = text.rstrip(":").split(":")
            if len(records) > _STABLE_UP_TO:
                records.sort(key=lambda each: rank.get(each.split(",")[0], -len(rank) - 1))
                annotations[key] = ":".join(records) + ":"


def _repeated_in_init(case: Case, ours: Answer) -> bool:
    """A running pod's init container names one card more than once; upstream counts the largest entry, not the sum.

    It counts one slot, and all places that the pod reserved. An entry takes a place and a slot with us, so the entries
    that count for nothing may stand for a place or be left out.
    """
    return any(answers_after(case, partial(_largest_of_repeats, stands_for_a_place=stands)) for stands in (False, True))


def _largest_of_repeats(case: Case, *, stands_for_a_place: bool) -> None:
    for pod in case["pods"]:
        inits = len(pod["spec"].get("initContainers") or [])
        annotations = pod["metadata"].get("annotations") or {}
        for key, text in annotations.items():
            if not (key.startswith("hami.io/") and key.endswith("-allocated")):
                continue
            segments = text.split(";")
            for at in range(min(inits, len(segments))):
                segments[at] = _largest(segments[at], stands_for_a_place=stands_for_a_place)
            annotations[key] = ";".join(segments)


def _largest(segment: str, *, stands_for_a_place: bool) -> str:
    entries = [entry.split(",") for entry in segment.split(":") if entry]
    largest: dict[str, list[int]] = {}
    for name, _, *amounts in entries:
        largest[name] = [max(pair) for pair in zip(map(int, amounts), largest.get(name, (0, 0)), strict=True)]
    kept = []
    for name, word, *_ in entries:
        if name in largest or stands_for_a_place:
            memory, cores = largest.pop(name, [0, 0])
            kept.append(f"{name},{word},{memory},{cores}:")
    return "".join(kept)


IDLE = Rule(
    name="idle-containers-keep-their-place",
    reason="HAMi drops the entries of containers without devices when the card model is not spelled like the vendor; "
    "later readers then attribute devices to the wrong container (HAMi issue 2899). We keep every entry.",
    aspects=frozenset({"devices", "annotations"}),
    holds=_idle,
    examples=("nvidia-008", "nvidia-025", "hygon-012", "amd-000"),
)

RULES = (
    IDLE,
    Rule(
        name="unusable-request-is-refused",
        reason="An amount that cannot mean anything (negative, fractional, too large, memory without a count) makes "
        "HAMi treat the container as one without devices, and the pod starts without accounting. We deny the pod and "
        "say why.",
        aspects=frozenset({"admission", "mutated", "fits", "reason", "devices", "annotations"}),
        holds=_unusable,
        examples=("nvidia-116", "nvidia-138", "hygon-031", "amd-014"),
    ),
    Rule(
        name="cores-out-of-range-are-refused",
        reason="HAMi casts cores to int32 unchecked: a negative amount passes every check and is booked, which frees "
        "cores that others hold. We deny the pod.",
        aspects=frozenset({"admission", "mutated", "fits", "reason", "devices", "annotations"}),
        holds=_wrapped_cores,
        examples=("nvidia-072", "nvidia-391"),
    ),
    Rule(
        name="equal-cards-beyond-twelve",
        reason="With more than twelve cards Go's sort does not keep the order of equals, so HAMi's choice among equal "
        "cards is arbitrary (though repeatable). Ours is the last listed, on every machine.",
        aspects=frozenset({"devices", "annotations"}),
        holds=_unstable_sort,
        examples=("nvidia-072",),
    ),
    Rule(
        name="init-container-holds-all-it-names",
        reason="An init container that got two partitions of one card holds both; HAMi counts the larger one.",
        aspects=frozenset({"fits", "reason", "devices", "annotations"}),
        holds=_repeated_in_init,
        examples=("nvidia-mig-099",),
    ),
)
