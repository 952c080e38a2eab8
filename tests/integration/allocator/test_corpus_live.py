"""What the real HAMi answered is what the live allocator answers: its webhook, ``filter`` and ``bind`` over sockets."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from hami_plugins.cli.kit.inputs import registry_of
from hami_plugins.config import settings
from hami_plugins.engine.registry import Registry
from hami_plugins.model.dialect import Dialect
from tests.golden import corpus
from tests.golden.rules import Answer, Case, Rule, all_rules
from tests.integration.allocator.live_corpus import LiveCorpus
from tests.integration.allocator.sites import site

FILE = Path(__file__).parents[2] / "golden" / "corpus" / "hami.jsonl.gz"
NEURON = {"allocator": "hami"}
WEIGHTS = "hami.io/device-scoring-weights"


@cache
def vendors() -> Registry:
    """All of HAMi's, as the allocator has them whose Neuron devices are allocated in HAMi's words."""
    return Registry(each for each in registry_of(settings.made({"neuron": NEURON})) if each.dialect is Dialect.HAMI)


@cache
def stable() -> dict[str, list[Case]]:
    """The cases that the real HAMi answered alike in every run, by vendor."""
    found: dict[str, list[Case]] = defaultdict(list)
    for case in corpus.cases([FILE]):
        if case["stable"]:
            found[case["vendor"]].append(case)
    return dict(found)


def _unreadable_weights(case: Case, ours: Answer) -> bool:
    return WEIGHTS in (case["pod"]["metadata"].get("annotations") or {}) and ours.message.startswith(WEIGHTS)


def _asks_for_nothing(case: Case, ours: Answer) -> bool:
    containers = [*case["pod"]["spec"]["containers"], *case["pod"]["spec"].get("initContainers", ())]
    amounts = [
        amount
        for container in containers
        for kind in ("limits", "requests")
        for name, amount in (container["resources"].get(kind) or {}).items()
        if vendors().owner_of(name) is not None
    ]
    return ours.allowed and not ours.annotations and bool(amounts) and set(amounts) == {"0"}


OF_SERVERS = (
    Rule(
        name="weights-are-read-at-admission",
        reason="HAMi admits a pod with weights that it cannot read, and no node takes the pod; it is refused at once",
        aspects=frozenset({"admission", "fits", "reason"}),
        holds=_unreadable_weights,
    ),
    Rule(
        name="zero-is-no-request",
        reason="a pod with 0 of every device needs no allocation: it is left to its own scheduler",
        aspects=frozenset({"admission", "fits", "reason", "mutated"}),
        holds=_asks_for_nothing,
    ),
)


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCorpus]:
    """One allocator of all of HAMi's vendors."""
    told: dict[str, Any] = {"vendors": [spec.name for spec in vendors()], "neuron": NEURON}
    with site(tmp_path_factory.mktemp("corpus")) as place:
        client = place.start(**told)
        place.install(client, **told)
        yield LiveCorpus(place, client, vendors())


def explained(case: Case, ours: Answer, rules: tuple[Rule, ...]) -> list[str] | None:
    """The names of the rules that explain how an answer differs from the recorded one; ``None``: none do."""
    aspects = corpus.differing(case, ours)
    found = corpus.explained(case, ours, aspects, rules) if aspects else []
    return None if found is None else [rule.name for rule in found]


@pytest.mark.parametrize("vendor", sorted(stable()))
def test_the_live_allocator_answers_as_hami_did_or_by_the_same_rules(vendor: str, live: LiveCorpus) -> None:
    cases, rules = stable()[vendor], all_rules()
    with live.shown(cases):
        answers = [live.answer(case) for case in cases]
    differing = {}
    for case, ours in zip(cases, answers, strict=True):
        plain = explained(case, corpus.answer(case, vendors()), rules)
        found = explained(case, ours, rules)
        if found != plain:
            found = explained(case, ours, OF_SERVERS)
        if found is None:
            differing[case["id"]] = sorted(corpus.differing(case, ours))
    assert not differing


def test_every_rule_of_servers_is_met(live: LiveCorpus) -> None:
    cases = {case["id"]: case for cases in stable().values() for case in cases}
    met = {"weights-are-read-at-admission": cases["metax-sgpu-145"], "zero-is-no-request": cases["amd-005"]}
    with live.shown(list(met.values())):
        found = {name: explained(case, live.answer(case), OF_SERVERS) for name, case in met.items()}
    assert found == {name: [name] for name in met}
