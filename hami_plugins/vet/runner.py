"""``vet`` itself: every rule over every object, less what authors asked to overlook."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from hami_plugins.engine import static_mig
from hami_plugins.engine.apply import removed
from hami_plugins.engine.decide import Decider
from hami_plugins.engine.registry import Registry
from hami_plugins.inputs.manifests import Document
from hami_plugins.inputs.vocabulary import Vocabulary
from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.vet import edits, objects, suppression
from hami_plugins.vet.claims import known_resources
from hami_plugins.vet.cluster_objects import ClusterObjects, is_looked_at
from hami_plugins.vet.context import Context, declared, where
from hami_plugins.vet.findings import VetFinding, VetRule, VetSeverity, Violation
from hami_plugins.vet.hardware import Hardware
from hami_plugins.vet.installed import installed
from hami_plugins.vet.managers import ManagerSigns
from hami_plugins.vet.pods_by_queue import NOBODY, PodsByQueue
from hami_plugins.vet.queues import queues
from hami_plugins.vet.reader import UnreadableManifest
from hami_plugins.vet.resources import Subject, subject_of
from hami_plugins.vet.scheduling import is_unseen
from hami_plugins.vet.settings import VetSettings
from hami_plugins.vet.table import RULES


def vet(
    documents: Iterable[Document],
    registry: Registry,
    settings: VetSettings | None = None,
    snapshot: ClusterObjects | ClusterSnapshot | None = None,
    *,
    unreadable: Iterable[UnreadableManifest] = (),
) -> tuple[VetFinding, ...]:
    """Everything that the rules find in some documents, in the order of files and lines.

    With a snapshot the rules about the cluster run as well; with ``ClusterObjects`` its own objects are also checked.
    ``unreadable`` is what ``reading.read`` set aside. Nothing in a document raises: what cannot be read is a finding.
    """
    settings = settings or VetSettings()
    subjects = tuple(subject_of(document, namespace=settings.namespace) for document in documents)
    known = snapshot if isinstance(snapshot, ClusterObjects) else ClusterObjects(snapshot)
    there = tuple(subject_of(document, namespace=settings.namespace) for document in known.objects)
    context = _context(subjects, there, registry, settings, known.snapshot)
    ignored = frozenset(name.lower() for name in settings.ignore)
    wanted = tuple(rule for rule in RULES if ignored.isdisjoint((rule.id.lower(), rule.name)))
    names = {rule.id for rule in wanted}
    looked_at = (*subjects, *(each for each in there if is_looked_at(each) and not context.is_declared(each)))
    found = [finding for subject in looked_at for finding in _findings(subject, wanted, context)]
    found += [finding for finding in map(objects.finding_of, unreadable) if finding.rule in names]
    return tuple(sorted(found, key=lambda finding: finding.order))


def _context(
    subjects: tuple[Subject, ...],
    there: tuple[Subject, ...],
    registry: Registry,
    settings: VetSettings,
    snapshot: ClusterSnapshot | None,
) -> Context:
    """All that the rules may look at."""
    placing = registry if snapshot is None else static_mig.scheduled(snapshot, registry)
    return Context(
        registry=registry,
        vocabulary=Vocabulary.of(registry),
        settings=settings,
        subjects=subjects,
        declared=declared(subjects),
        listed=frozenset(each.document for each in there),
        volcano=installed((*subjects, *there), settings),
        queues=queues((*there, *subjects), snapshot),
        signs=ManagerSigns.of((*there, *subjects)),
        occupants=NOBODY if snapshot is None else PodsByQueue.of(snapshot),
        unseen=frozenset(each.name for each in subjects if each.kind == "Namespace" and is_unseen(each.labels)),
        suppressions=suppression.suppressions((*subjects, *there)),
        rule_names=frozenset(name.lower() for rule in RULES for name in (rule.id, rule.name)),
        placing=placing,
        dynamic=known_resources(subjects, snapshot),
        decider=Decider(placing),
        snapshot=snapshot,
        idle=None if snapshot is None else removed(snapshot, lambda _: True),
        hardware=None if snapshot is None else Hardware.of(snapshot),
    )


def _findings(subject: Subject, rules: Sequence[VetRule], context: Context) -> Iterator[VetFinding]:
    found = [(rule, flaw) for rule in rules for flaw in rule.check(subject, context) if _holds(rule, flaw, context)]
    errors = [
        flaw.path
        for rule, flaw in found
        if flaw.scope is None and (flaw.severity or rule.severity) is VetSeverity.ERROR
    ]
    overlooked = context.overlooked(subject)
    for rule, flaw in found:
        if flaw.scope is not None and any(path[: len(flaw.scope)] == flaw.scope for path in errors):
            continue
        finding = _finding(subject, rule, flaw)
        if not overlooked.covers((rule.id, rule.name), finding.line):
            yield finding


def _holds(rule: VetRule, flaw: Violation, context: Context) -> bool:
    """Whether the cluster's Volcano is one that does what makes it a mistake."""
    quirk = flaw.quirk or rule.quirk
    return quirk is None or context.does(quirk)


def _finding(subject: Subject, rule: VetRule, flaw: Violation) -> VetFinding:
    document = subject.document
    quirk = flaw.quirk or rule.quirk
    about = "" if quirk is None else f" ({quirk})"
    spot = document.spot_of(flaw.path)
    part, what = _parted(subject, flaw.what)
    return VetFinding(
        rule=rule.id,
        name=rule.name,
        severity=flaw.severity or rule.severity,
        message=f"{subject.label}: {flaw.what}{about}; {flaw.fix}",
        what=f"{what}{about}",
        file=document.source,
        document=document.number,
        line=spot.line,
        column=spot.column,
        path=(*document.base, *flaw.path),
        fix=flaw.fix,
        object=subject.label,
        part=part,
        replacement=None if flaw.edit is None else edits.replacement(document, flaw.edit),
        holds_for="" if quirk is None else str(quirk),
    )


def _parted(subject: Subject, what: str) -> tuple[str, str]:
    """The task and the container that a flaw begins with, and the rest of it."""
    for pod in subject.pods:
        for part in (*(where(container, pod) for container in pod.containers), pod.label):
            for end in (": ", ", ") if part else ():
                if what.startswith(f"{part}{end}"):
                    return part, what.removeprefix(f"{part}{end}")
    return "", what
