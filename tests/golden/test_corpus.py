"""Every recorded answer of the real HAMi and the real Volcano is ours, or a rule says why not."""

from __future__ import annotations

import copy
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

from hami_plugins.cli.kit.inputs import registry_of
from hami_plugins.config import settings
from hami_plugins.engine.registry import Registry
from tests.golden import corpus
from tests.golden.rules import Case, Rule, all_rules

FOLDER = Path(__file__).parent / "corpus"
FILES = ("hami.jsonl.gz", "hami-more.jsonl.gz", "volcano.jsonl.gz", "volcano-more.jsonl.gz")
"""Those with ``more`` were recorded from the same code as the others, with pods and nodes of their cases put together
anew."""


BEYOND = frozenset({"equal-cards-beyond-twelve"})
"""Rules about upstream's code that no case of these files meets; the whole set of recorded answers is larger."""


@cache
def shipped() -> Registry:
    """The vendors as the command line loads them in a cluster whose Neuron devices HAMi allocates."""
    return registry_of(settings.made({"neuron": {"allocator": "hami"}}))


@cache
def by_vendor(file: str) -> dict[str, list[Case]]:
    """The cases of a file per vendor."""
    found: dict[str, list[Case]] = defaultdict(list)
    for case in corpus.cases([FOLDER / file]):
        found[case["vendor"]].append(case)
    return dict(found)


@cache
def rules_of(file: str, vendor: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The rules that explain a vendor's cases, and the cases that none explains."""
    rules, vendors = all_rules(), shipped()
    used: dict[str, None] = {}
    unexplained: list[str] = []
    for case in by_vendor(file)[vendor]:
        ours = corpus.answer(case, vendors)
        aspects = corpus.differing(case, ours)
        found: list[Rule] | None = corpus.explained(case, ours, aspects, rules) if aspects else []
        if found is None:
            unexplained.append(f"{case['id']} ({', '.join(sorted(aspects))})")
        else:
            used.update(dict.fromkeys(rule.name for rule in found))
    return tuple(used), tuple(unexplained)


ALL = [pytest.param(file, vendor, id=f"{file}-{vendor}") for file in FILES for vendor in sorted(by_vendor(file))]


@pytest.mark.parametrize(("file", "vendor"), ALL)
def test_every_recorded_answer_is_ours_or_explained(file: str, vendor: str) -> None:
    _, unexplained = rules_of(file, vendor)
    assert not unexplained


def test_every_rule_explains_a_recorded_answer() -> None:
    used = {name for file in FILES for vendor in by_vendor(file) for name in rules_of(file, vendor)[0]}
    assert {rule.name for rule in all_rules()} - used <= BEYOND


ONE_CARD = "volcano.sh/node-vgpu-register"


def _without_last_colon(case: Case) -> Case | None:
    """A case of a node with one card whose register loses its last colon, as Volcano's code answers it: a value without
    any colon decodes to no devices (Volcano 1.14.1 ``pkg/scheduler/api/devices/nvidia/vgpu/utils.go``), and the device
    check passes such a node."""
    changed = copy.deepcopy(case)
    annotations = changed["node"]["metadata"].get("annotations") or {}
    register = annotations.get(ONE_CARD, "")
    if register.count(":") != 1 or not register.endswith(":"):
        return None
    annotations[ONE_CARD] = register.removesuffix(":")
    bound = {"fits": True, "reason": "", "annotations": {}, "score": 0, "registered": False, "has_request": False}
    for answer in (changed, *changed["answers"]):
        answer.update(bound)
    return changed


def test_a_register_without_any_colon_is_a_node_that_volcano_does_not_check() -> None:
    """The rule that explains it is that of nodes without registered cards; we refuse the pod."""
    vendors, judged = shipped(), 0
    for case in corpus.cases([FOLDER / "volcano.jsonl.gz"]):
        changed = _without_last_colon(case)
        if changed is None:
            continue
        changed["id"] += "-without-colon"  # answers are remembered by id
        ours = corpus.answer(changed, vendors)
        found = corpus.explained(changed, ours, corpus.differing(changed, ours), all_rules())
        assert found is not None, changed["id"]
        judged += "unregistered-node-has-no-cards" in {rule.name for rule in found}
    assert judged > 10


def test_only_neuron_devices_depend_on_which_component_allocates_them() -> None:
    linked = registry_of(settings.made({}))
    different = {case["vendor"] for case in corpus.cases([FOLDER / "hami.jsonl.gz"]) if _differs(case, linked)}
    assert different == {"neuron-core", "neuron-device"}


def _differs(case: Case, registry: Registry) -> bool:
    return corpus.answer(case, registry) != corpus.answer(case, shipped())
