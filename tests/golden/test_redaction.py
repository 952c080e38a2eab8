"""Redacted snapshots of recorded clusters and of shipped fleets give the answers of the originals."""

from __future__ import annotations

import gzip
import itertools
import json
import re
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from hami_plugins import examples
from hami_plugins.cli import main
from hami_plugins.inputs import fleets, manifests, workloads
from hami_plugins.inputs.list_reader import snapshot_of
from hami_plugins.inputs.snapshots import files as snapshot_file
from hami_plugins.inputs.snapshots.pseudonyms import Named
from hami_plugins.inputs.snapshots.redaction import Redactor
from hami_plugins.inputs.snapshots.trimmer import Trimmer, kinds
from hami_plugins.model.decisions import Placed
from hami_plugins.plan import Plan, Planner, PodPlan, submission
from hami_plugins.vendors import builtin
from hami_plugins.wire.pages import with_kind
from tests.golden import redaction_page

HERE = Path(__file__).parent
REGISTRY = builtin()
CONTAINER = re.compile(r"container [\w-]+")
"""Containers are numbered in each pod; their names mean nothing outside of it."""


def judged(listing: Iterable[object], wanted: Iterable[object]) -> None:
    """Plan some objects on a cluster, and again under pseudonyms; the second answer is the first one, translated."""
    trimmer = Trimmer(REGISTRY)
    before, submitted = list(trimmer.objects(listing)), list(trimmer.objects(wanted))
    redactor = Redactor([*before, *submitted], REGISTRY)
    redacted = redactor.cluster()
    assert len(redacted) == len(before) + len(submitted)
    original = planned(before, submitted)
    found = planned(redacted[: len(before)], redacted[len(before) :])
    assert len(found.pods) == len(original.pods)
    for ours, theirs in zip(found.pods, original.pods, strict=True):
        assert stage_of(ours) == stage_of(theirs)
        names = redactor.names.names
        assert ours.pod.namespace == names[Named.NAMESPACE][theirs.pod.namespace]
        assert reasons(ours.words, told(redactor, 1)) == reasons(theirs.words, told(redactor, 0))
        assert reasons(ours.why, told(redactor, 1)) == reasons(theirs.why, told(redactor, 0))
        if isinstance(theirs.decision, Placed):
            assert isinstance(ours.decision, Placed)
            assert ours.decision.node == names[Named.NODE][theirs.decision.node]
            assert ours.decision.fit == theirs.decision.fit
            assert [share.device for share in ours.decision.shares()] == [
                redactor.walk.word(share.device) for share in theirs.decision.shares()
            ]


def stage_of(pod: PodPlan) -> tuple[str, str]:
    return pod.stage.value, type(pod.decision).__name__


def told(redactor: Redactor, which: int) -> frozenset[str]:
    """The secret texts (0) or their pseudonyms (1)."""
    names = redactor.names
    pairs = itertools.chain(names.values.items(), names.keys.items(), *(each.items() for each in names.names.values()))
    return frozenset(pair[which] for pair in pairs if pair[0] != pair[1])


def planned(listing: Sequence[object], wanted: Sequence[object]) -> Plan:
    snapshot = snapshot_of(listing, REGISTRY)
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": wanted})
    submitted = workloads.read(manifests.read(text, source="wanted"), pod_groups=snapshot.pod_groups)
    snapshot = submission.with_objects(snapshot, submitted)
    return Planner(REGISTRY).plan(snapshot, submission.units(submitted, snapshot))


def reasons(words: str, names: Collection[str]) -> list[str]:
    """The parts of a sentence without its names, and without the order in which they are listed."""
    words = CONTAINER.sub("container", words)
    if names:
        known = "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
        words = re.sub(rf"(?<![\w.-])(?:{known})(?![\w-]|\.\w)", "NAME", words)
    return sorted(re.split(r"[,;] ", words))


def scenarios() -> list[Path]:
    """The recorded clusters whose submission has only kinds that a snapshot holds."""
    found = []
    for folder in sorted((HERE / "scenarios").iterdir()):
        file = folder / "submit.yaml"
        if file.exists() and all(
            each is None or each.get("kind") in kinds() for each in yaml.safe_load_all(file.read_text(encoding="utf-8"))
        ):
            found.append(folder)
    return found


@pytest.mark.parametrize("folder", scenarios(), ids=lambda folder: folder.name)
def test_recorded_clusters_answer_the_same(folder: Path) -> None:
    with gzip.open(folder / "before.json.gz") as file:
        listing = json.load(file)
    judged([listing], yaml.safe_load_all((folder / "submit.yaml").read_text(encoding="utf-8")))


def spoken(value: Any) -> Any:
    """A document without the names of containers, which are numbers under pseudonyms."""
    if isinstance(value, dict):
        named = {"name"} if value.keys() >= {"name", "kind", "limits"} else set()
        return {key: spoken(inner) for key, inner in value.items() if key not in named}
    return [spoken(inner) for inner in value] if isinstance(value, list) else value


@pytest.mark.parametrize("command", [("vet", "-o", "json"), ("explain", "pods", "-A", "-o", "json")], ids=" ".join)
@pytest.mark.parametrize("folder", scenarios()[::6], ids=lambda folder: folder.name)
def test_the_commands_say_the_same_of_recorded_clusters(
    folder: Path, command: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with gzip.open(folder / "before.json.gz") as file:
        listing = [json.load(file), *yaml.safe_load_all((folder / "submit.yaml").read_text(encoding="utf-8"))]
    names = Redactor(listing, REGISTRY)
    secret = told(names, 0) | told(names, 1)
    answers = []
    for redacted in (False, True):
        place = tmp_path / str(redacted) / "snapshot.json"
        place.parent.mkdir()
        place.write_text(json.dumps(snapshot_file.document(listing, REGISTRY, taken_at="now", redacted=redacted)))
        code = main([*command, "--snapshot", str(place)])
        said = json.dumps(spoken(json.loads(capsys.readouterr().out)), sort_keys=True)
        answers.append((code, reasons(said.replace(str(place.parent), ""), secret)))
    assert answers[0] == answers[1]


def corpus() -> list[dict[str, Any]]:
    found = []
    for name in ("hami", "hami-more", "volcano", "volcano-more"):
        with gzip.open(HERE / "corpus" / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
            found += [json.loads(line) for line in itertools.islice(lines, 0, None, 29)]
    return found


@pytest.mark.parametrize("case", corpus(), ids=lambda case: case["id"])
def test_recorded_nodes_of_every_vendor_answer_the_same(case: dict[str, Any]) -> None:
    pods = [with_kind(each, "Pod") for each in case["pods"]]
    judged([with_kind(case["node"], "Node"), *pods], [with_kind({"apiVersion": "v1", **case["pod"]}, "Pod")])


@pytest.mark.parametrize("fleet", examples.fleet_names())
def test_shipped_workloads_answer_the_same_on_shipped_fleets(fleet: str) -> None:
    listing = fleets.objects_of(fleets.parse(examples.fleet_text(fleet), source=fleet))
    wanted: list[Any] = []
    for name in examples.workload_names():
        documents = yaml.safe_load_all(examples.workload_text(name))
        wanted.extend(each for each in documents if each.get("kind") in kinds())
    judged(listing, wanted)


@pytest.mark.parametrize("name", ["", "koordinator-", "neuron-"])
def test_the_clusters_of_printed_plans_answer_the_same(name: str) -> None:
    listing = list(yaml.safe_load_all((HERE / "output" / f"{name}cluster.yaml").read_text(encoding="utf-8")))
    jobs = yaml.safe_load_all((HERE / "output" / f"{name}jobs.yaml").read_text(encoding="utf-8"))
    judged(listing, [each for each in jobs if each.get("kind") in kinds()])


def test_enough_recorded_clusters_are_looked_at() -> None:
    assert len(scenarios()) > 20
    assert len(corpus()) > 40


def test_the_page_lists_the_words_that_the_program_keeps() -> None:
    written = redaction_page.PAGE.read_text(encoding="utf-8")
    assert written == redaction_page.page(), "write it anew: python -m tests.golden.redaction_page"
