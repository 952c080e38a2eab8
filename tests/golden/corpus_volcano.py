"""What we say to a case of Volcano's vGPU scheduler, in the terms of its recorded answers."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import yaml

from hami_plugins.engine.annotate import annotations_of
from hami_plugins.engine.decide import Decider
from hami_plugins.engine.intake import Rules, take_in
from hami_plugins.engine.inventory import NodeBuilder, RecordReader, with_pods
from hami_plugins.engine.policies import PolicyDefaults
from hami_plugins.engine.registry import Registry
from hami_plugins.engine.segments import asks_for_a_card
from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.model.decisions import Placed
from hami_plugins.model.pods import Pod
from hami_plugins.vendors import volcano
from hami_plugins.wire import objects, volcano_config
from tests.golden.rules import Answer, Case

CONFIG = Path(__file__).parent / "corpus" / "volcano-device-config.yaml"
NOW_NS = 1_790_000_000_123_456_789
_SECONDS = str(NOW_NS // 10**9)
_FINISHED = ("Succeeded", "Failed")


@cache
def registry(config: str) -> Registry:
    """Volcano's vendor as the case's scheduler was configured."""
    if config == "default":
        return Registry([volcano.SPEC])
    document = yaml.safe_load(CONFIG.read_text(encoding="utf-8"))
    return Registry([volcano.configured(volcano_config.decode(document))])


def answer(case: Case, vendors: Registry | None = None) -> Answer:
    """What we say to a case. ``vendors`` stands in for the configured ones, to see what a defect would make of them.

    The recorded answers are those of the devices alone; Volcano's sums per node are not included.
    """
    vendors = vendors or registry(case["config"])
    reader = RecordReader(vendors)
    entry = NodeBuilder(vendors).entry(objects.node_object(case["node"]), objects.node_facts(case["node"]))
    problems = [str(problem) for problem in entry.problems]
    records = []
    for raw in case["pods"]:
        pod = objects.pod(raw)
        if pod.phase not in _FINISHED:
            record, found = reader.record(pod)
            problems.extend(map(str, found))
            records.append(record)
    entry = with_pods(entry, records)
    pod = objects.pod(case["pod"], default_requests=False)
    intake = take_in(pod, vendors, Rules(policies=PolicyDefaults(volcano=case["schedule_policy"])))
    facts = {"registered": bool(entry.ids), "has_request": _asks(vendors, pod)}
    if intake.refusal:
        return _answer(fits=False, reason=intake.refusal, refusal=intake.refusal, problems=problems, facts=facts)
    decider = Decider(vendors, uncounted=vendors.resources)
    decision = decider.decide(ClusterSnapshot(nodes=(entry,)), intake.demand, intake.policy)
    if not isinstance(decision, Placed):
        return _answer(fits=False, reason=decision.by_node[0][1].words, problems=problems, facts=facts)
    written = annotations_of(intake.pod, decision, entry, vendors, now_ns=NOW_NS)
    timed = {key: text.replace(_SECONDS, "<unix-seconds>") for key, text in written.items()}
    score = decision.fit.score if intake.demand.devices.wants_devices else 0.0
    return _answer(fits=True, annotations=timed, problems=problems, facts=facts, score=score)


def _asks(vendors: Registry, pod: Pod) -> bool:
    return any(asks_for_a_card(spec, container) for spec in vendors for container in pod.containers)


def _answer(
    *,
    fits: bool,
    problems: list[str],
    facts: dict[str, bool],
    reason: str = "",
    refusal: str = "",
    score: float = 0.0,
    annotations: dict[str, str] | None = None,
) -> Answer:
    return Answer(
        allowed=True,
        code=None,
        message="",
        scheduler="",
        mutated=None,
        fits=fits,
        reason=reason,
        annotations=annotations or {},
        refusal=refusal,
        problems=tuple(problems),
        score=score,
        facts=facts,
    )
