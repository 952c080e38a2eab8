"""Judge our answers against recorded answers of the real HAMi and the real Volcano.

``python -m tests.golden.corpus FILE.jsonl.gz...`` prints agreement per vendor, the differences that a rule explains,
and the unexplained ones with both answers; it exits 1 if there are any.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hami_plugins.engine import quota
from hami_plugins.engine.annotate import annotations_of
from hami_plugins.engine.decide import Decider
from hami_plugins.engine.intake import PodInfo, Rules, take_in
from hami_plugins.engine.inventory import NodeBuilder, RecordReader, with_pods
from hami_plugins.engine.registry import Registry
from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.model.decisions import Placed
from hami_plugins.model.nodes import NodeEntry
from hami_plugins.vendors import builtin
from hami_plugins.wire import admission, objects
from tests.golden.rules import Answer, Case, Rule, all_rules

NOW_NS = 1_790_000_000_123_456_789
_TIMES = {str(NOW_NS): "<unix-nanoseconds>", str(NOW_NS // 10**9): "<unix-seconds>"}
FINISHED = ("Succeeded", "Failed")


def cases(paths: Iterable[Path]) -> Iterator[Case]:
    """The cases of corpus files, in order."""
    for path in paths:
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            for line in lines:
                yield json.loads(line)


def answer(case: Case, registry: Registry) -> Answer:
    """What we say to a case."""
    if case["id"].startswith("volcano"):
        from tests.golden import corpus_volcano  # noqa: PLC0415 - needed for that file only

        return corpus_volcano.answer(case)
    entry, intake, problems = situation(case, registry)
    given = intake.admission
    base: dict[str, Any] = {
        "allowed": given.allowed,
        "code": None if given.allowed else given.code,
        "message": "" if given.allowed else given.message,
        "scheduler": given.pod.scheduler,
        "mutated": _mutated(case, given.changes) if given.allowed else None,
        "problems": problems,
    }
    if intake.refusal:
        return Answer(**base, fits=False, reason=intake.words, annotations={}, refusal=intake.refusal)
    # The recorded answers are those of HAMi's extender; kube-scheduler's own sums are not included.
    decider = Decider(registry, uncounted=registry.resources)
    decision = decider.decide(ClusterSnapshot(nodes=(entry,)), intake.demand, intake.policy)
    if not isinstance(decision, Placed):
        words = decision.by_node[0][1].words
        return Answer(**base, fits=False, reason=words, annotations={})
    written = annotations_of(intake.pod, decision, entry, registry, now_ns=NOW_NS)
    timed = {key: _untimed(value) for key, value in written.items()}
    return Answer(**base, fits=True, reason="", annotations=timed)


def situation(case: Case, registry: Registry) -> tuple[NodeEntry, PodInfo, tuple[str, ...]]:
    """The node with its pods, the new pod as taken in, and what could not be read."""
    problems: list[str] = []
    reader = RecordReader(registry)
    entry = NodeBuilder(registry).entry(objects.node_object(case["node"]), objects.node_facts(case["node"]))
    problems.extend(str(problem) for problem in entry.problems)
    records = []
    for raw in case["pods"]:
        pod = objects.pod(raw)
        if pod.phase in FINISHED:
            continue
        record, found = reader.record(pod)
        problems.extend(str(problem) for problem in found)
        records.append(record)
    entry = with_pods(entry, records)
    snapshot = ClusterSnapshot(
        nodes=(entry,),
        quotas={each.namespace: each for each in map(objects.resource_quota, case.get("quotas") or [])},
    )
    pod = objects.pod(case["pod"], default_requests=False)
    left = dict(
        quota.headroom(snapshot.quotas.get(pod.namespace), quota.used_by(snapshot, pod.namespace, registry), registry)
    )
    return entry, take_in(pod, registry, Rules(), left), tuple(problems)


def _untimed(text: str) -> str:
    for time, word in _TIMES.items():
        text = text.replace(time, word)
    return text


def _mutated(case: Case, changes: Any) -> Any:
    others = [change for change in changes if change.change.kind != "schedulerName"]
    return admission.applied(case["pod"], changes) if others else None


def differing(case: Case, ours: Answer) -> set[str]:
    """The aspects in which an answer differs from every recorded one."""
    best: set[str] | None = None
    for recorded in case["answers"]:
        aspects = _against(case, recorded, ours)
        if best is None or len(aspects) < len(best):
            best = aspects
    return best or set()


def _against(case: Case, recorded: Case, ours: Answer) -> set[str]:
    aspects = _about_admission(case, ours)
    allowed = (case.get("admission") or {"allowed": True})["allowed"]
    if recorded["fits"] != ours.fits:
        aspects.add("fits")
    elif not ours.fits and recorded.get("reason", "") != ours.reason and allowed:
        aspects.add("reason")
    elif ours.fits:
        theirs = recorded.get("annotations") or {}
        for key in {*theirs, *ours.annotations}:
            if theirs.get(key) != ours.annotations.get(key):
                aspects.add("devices" if re.search(r"devices-|-allocated$|vgpu-ids", key) else "annotations")
        if ours.score is not None and recorded["fits"] and float(recorded["score"]) != ours.score:
            aspects.add("score")
    if any(recorded[fact] != value for fact, value in ours.facts.items()):
        aspects.add("facts")
    return aspects


def _about_admission(case: Case, ours: Answer) -> set[str]:
    """Whether the webhooks agree. Only the message of a denial counts, only the scheduler and the pod of a consent."""
    given = case.get("admission") or {"allowed": True, "scheduler_name": ours.scheduler}
    if given["allowed"] != ours.allowed:
        return {"admission"}
    if not ours.allowed:
        return set() if (given.get("message"), given.get("code")) == (ours.message, ours.code) else {"admission"}
    aspects = set() if given.get("scheduler_name", "") == ours.scheduler else {"admission"}
    if case.get("mutated") != ours.mutated:
        aspects.add("mutated")
    return aspects


def explained(case: Case, ours: Answer, aspects: set[str], rules: Iterable[Rule]) -> list[Rule] | None:
    """The rules that together account for every differing aspect, or ``None``."""
    left, used = set(aspects), []
    for rule in rules:
        if left and rule.explains(case, ours, left):
            used.append(rule)
            left -= rule.aspects
    return None if left else used


def main(arguments: list[str] | None = None) -> int:
    """Judge files and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--vendor", default="", help="only vendors that start with this")
    parser.add_argument("--id", default="", help="only this case")
    parser.add_argument("--show", type=int, default=20, help="how many unexplained differences to print")
    options = parser.parse_args(arguments)
    wanted = (
        case
        for case in cases(options.files)
        if case["vendor"].startswith(options.vendor) and options.id in ("", case["id"])
    )
    found = judged(wanted)
    sys.stdout.write("\n".join(_report(found, options.show)) + "\n")
    return 1 if found.unexplained else 0


@dataclass(frozen=True, slots=True)
class Judgement:
    """What became of some cases: how many of each vendor, how many agree, which rule explains which, and the rest."""

    total: Counter[str] = field(default_factory=Counter)
    agreed: Counter[str] = field(default_factory=Counter)
    by_rule: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    unexplained: list[tuple[Case, Answer, set[str]]] = field(default_factory=list)

    def rows(self) -> Iterator[tuple[str, int, int, int, int]]:
        """Per vendor and then for all: cases, agreeing ones, those that rules explain, and unexplained ones."""
        missing = Counter(case["vendor"] for case, _, _ in self.unexplained)
        for vendor in sorted(self.total):
            total, agreed, left = self.total[vendor], self.agreed[vendor], missing[vendor]
            yield vendor, total, agreed, total - agreed - left, left
        total, agreed, left = self.total.total(), self.agreed.total(), missing.total()
        yield "all", total, agreed, total - agreed - left, left


def judged(wanted: Iterable[Case]) -> Judgement:
    """Our answers against the recorded ones."""
    registry, rules = builtin(), all_rules()
    found = Judgement()
    for case in wanted:
        found.total[case["vendor"]] += 1
        ours = answer(case, registry)
        aspects = differing(case, ours)
        if not aspects:
            found.agreed[case["vendor"]] += 1
            continue
        used = explained(case, ours, aspects, rules)
        if used is None:
            found.unexplained.append((case, ours, aspects))
        for rule in used or ():
            found.by_rule[rule.name].append(case["id"])
    return found


def _report(found: Judgement, show: int) -> Iterator[str]:
    yield f"{'vendor':20} {'cases':>6} {'agree':>6} {'rules':>6} {'unexplained':>12}"
    for vendor, total, agreed, ruled, left in found.rows():
        yield f"{vendor:20} {total:6} {agreed:6} {ruled:6} {left:12}"
    for name, ids in sorted(found.by_rule.items()):
        yield f"  rule {name}: {len(ids)} ({', '.join(ids[:4])}{', ...' if len(ids) > 4 else ''})"
    for each in found.unexplained[:show]:
        yield from _both_answers(*each)


def _both_answers(case: Case, ours: Answer, aspects: set[str]) -> Iterator[str]:
    yield f"\n{case['id']} {case['tags']} differs in {', '.join(sorted(aspects))}"
    yield f"  pod: {json.dumps(case['pod']['metadata'].get('annotations'))} {_resources(case['pod'])}"
    yield f"  theirs: {case.get('admission')} fits={case['fits']} {case['reason']} {case.get('score')}"
    yield f"          {json.dumps(case.get('annotations'))[:1200]}"
    yield f"  ours:   allowed={ours.allowed} {ours.message} {ours.scheduler}"
    yield f"          fits={ours.fits} {ours.reason} {ours.score}"
    yield f"          {json.dumps(ours.annotations)[:1200]}"
    if "mutated" in aspects:
        yield f"  mutated theirs: {_resources(case['mutated'])}"
        yield f"  mutated ours:   {_resources(ours.mutated)}"
    if ours.problems:
        yield f"  problems: {ours.problems}"


def _resources(pod: Any) -> str:
    if not pod:
        return "-"
    spec = pod["spec"]
    return json.dumps(
        {
            kind: [each.get("resources") for each in spec.get(kind) or []]
            for kind in ("initContainers", "containers")
            if spec.get(kind)
        }
    )


if __name__ == "__main__":
    sys.exit(main())
