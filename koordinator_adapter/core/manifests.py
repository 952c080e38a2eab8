"""Manifest files into other words: pods, the templates of every kind of workload, groups, queues and Volcano's Jobs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from hami_plugins.engine.registry import Registry
from hami_plugins.errors import WireError
from hami_plugins.inputs.manifests import Document, Path
from hami_plugins.inputs.manifests.rewriter import rewritten
from hami_plugins.model.dialect import Dialect
from hami_plugins.model.edits import AppendEdit, PutEdit, below, made
from hami_plugins.vet.resources import PodView, Subject, subject_of
from hami_plugins.wire.fields import Json
from koordinator_adapter.core.translation import controllers, groups, jobs, objects
from koordinator_adapter.core.translation.groups import named_group
from koordinator_adapter.core.translation.model import (
    Change,
    Fidelity,
    Translation,
    TranslationFinding,
    TranslationOptions,
    at,
    kept,
    lost,
    refused,
)
from koordinator_adapter.core.translation.pods import translate
from koordinator_adapter.core.translation.reader import words_of, words_of_name
from koordinator_adapter.core.translation.vocabulary import GANG_NAME, GROUP, MIN_AVAILABLE, OLD_GROUP, QUOTA

_UNSERVED_LABEL: Final = "control-plane"
_PLACED: Final = refused(
    "nodeName",
    "the cluster has placed this pod already, and its record would not be translated with it",
    "translate the manifest it was created from, or use --submission to create a new one",
    path=("spec", "nodeName"),
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TranslatedObject:
    """What became of one object, or of one template in it (``part``). ``source`` is ``None`` for a group or queue."""

    document: Document
    kind: str
    name: str
    part: str = ""
    source: Dialect | None = None
    findings: tuple[TranslationFinding, ...] = ()

    @property
    def fidelity(self) -> Fidelity:
        """The worst of the findings."""
        return Translation(source=None, target=Dialect.HAMI, findings=self.findings).fidelity

    def line_of(self, finding: TranslationFinding) -> int:
        """Where in the file the finding is about."""
        spot = self.document.spot_of(finding.path) if finding.path else self.document.spot_of(())
        return spot.line


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class File:
    """One file in other words. ``anew`` are documents that could not be changed in place, ``commented`` those of them
    whose comments are gone."""

    source: str
    text: str
    objects: tuple[TranslatedObject, ...]
    changed: bool
    anew: tuple[int, ...] = ()
    commented: tuple[int, ...] = ()

    @property
    def refused(self) -> bool:
        """Whether something in it has no other words; that part is as it was."""
        return any(each.fidelity is Fidelity.REFUSED for each in self.objects)


def translated(
    documents: Sequence[Document], target: Dialect, registry: Registry, settings: TranslationOptions, *, namespace: str
) -> tuple[File, ...]:
    """Every file of some documents in the words of ``target``, in their order.

    ``registry`` is one of ``reading.complete``; ``namespace`` is where objects go that do not say.
    """
    subjects = [subject_of(document, namespace=namespace) for document in documents]
    groups = frozenset(each.full_name for each in subjects if each.kind == "PodGroup")
    known = replace(
        settings,
        unserved=settings.unserved | _unserved(subjects),
        groups=settings.groups | groups,
        quotas=settings.quotas | frozenset(each.name for each in subjects if each.kind in {"Queue", "ElasticQuota"}),
        moved=settings.moved | groups | _gangs(subjects, registry, settings),
    )
    by_file: dict[str, list[Subject]] = {}
    for subject in subjects:
        by_file.setdefault(subject.document.source, []).append(subject)
    work = _Work(target=target, registry=registry, settings=known, namespace=namespace, groups=groups)
    return tuple(work.file(found) for found in by_file.values())


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Work:
    """What holds for all files; ``groups`` are the PodGroups that exist, by full name."""

    target: Dialect
    registry: Registry
    settings: TranslationOptions
    namespace: str
    groups: frozenset[str]

    def file(self, subjects: Sequence[Subject]) -> File:
        """One file."""
        file = subjects[0].document.file
        changed: dict[int, list[Json]] = {}
        objects: list[TranslatedObject] = []
        added: dict[str, Json] = {}
        for subject in subjects:
            document = subject.document
            becomes, found = self._object(subject)
            objects += found
            added |= self._missing_groups(subject, found)
            if becomes == [document.raw]:
                continue
            if document.base:
                top = changed[document.number][0] if document.number in changed else _top(document)
                changed[document.number] = [_listed(top, document.base, becomes)]
            else:
                changed[document.number] = becomes
        result = rewritten(file.text, changed, tuple(added.values()))
        return File(
            source=file.source,
            text=result.text if changed or added else file.text,
            objects=tuple(objects),
            changed=bool(changed or added),
            anew=result.anew if changed else (),
            commented=result.commented if changed else (),
        )

    def _object(self, subject: Subject) -> tuple[list[Json], list[TranslatedObject]]:
        raw = dict(subject.document.raw)
        other = objects.turned(raw, self.target, namespace=self.namespace)
        if subject.group == "" and subject.kind == "ResourceQuota":
            findings = tuple(self._of_quota(subject))
            return [raw], [_translated(subject, findings=findings)] if findings else []
        if other is not None:
            alone = _translated(subject, findings=other.findings)
            return [other.raw or raw], [alone]
        found = [(view, self._translation(subject, view)) for view in subject.pods]
        translated = [
            _translated(
                subject,
                part=view.label,
                source=each.source,
                findings=_inside(view.path, map(self._settled, each.findings)),
            )
            for view, each in found
            if each.source is not None or each.findings
        ]
        translated += self._of_kind(subject, translated)
        if any(each.fidelity is Fidelity.REFUSED for each in translated):
            return [raw], translated
        owned = self._of_owner(subject, translated)
        edits = [edit for edit in owned if not isinstance(edit, TranslationFinding)]
        edits += [below(view.path, edit) for view, each in found for edit in each.edits]
        findings = tuple(each for each in owned if isinstance(each, TranslationFinding))
        translated = [_translated(subject, findings=findings), *translated] if findings else translated
        if jobs.is_volcano_job(raw) and self.target is not Dialect.VOLCANO and translated:
            return self._apart(subject, made(raw, edits), translated)
        return [made(raw, edits) if edits else raw], translated

    def _of_kind(self, subject: Subject, translated: Iterable[TranslatedObject]) -> list[TranslatedObject]:
        """What the kind of an object says about pods that change their scheduler."""
        moved = any(each.source not in {None, self.target} for each in translated)
        finding = controllers.of_kind(subject.group, subject.kind, self.target) if moved else None
        return [] if finding is None else [_translated(subject, findings=(finding,))]

    def _of_quota(self, subject: Subject) -> Iterator[TranslationFinding]:
        """Limits of a namespace by names that its pods have no more."""
        for key in subject.inside("spec", "hard"):
            name = key.removeprefix("requests.").removeprefix("limits.")
            words = words_of_name(name, self.registry)
            if words is not None and words is not self.target:
                yield lost(
                    key,
                    f"no longer limits pods that use {self.target}'s resource names",
                    path=("spec", "hard", key),
                    remedy="also write the limit with those names, or use a queue or quota of the scheduler",
                )

    def _of_owner(self, subject: Subject, translated: Iterable[TranslatedObject]) -> list[Change]:
        """What the owner of a template in Volcano's words says of its pods."""
        volcanos = any(each.source is Dialect.VOLCANO for each in translated)
        if not volcanos or not subject.owns_templates or self.target is Dialect.VOLCANO:
            return []
        if jobs.is_volcano_job(dict(subject.document.raw)):
            return []
        return list(
            groups.of_owner(subject.annotations, subject.name, subject.pods[0].path, self.target, self.settings)
        )

    def _settled(self, finding: TranslationFinding) -> TranslationFinding:
        """A field that a pod alone would lose is kept if the PodGroup in the same manifests has it."""
        if finding.about == MIN_AVAILABLE and self.target is Dialect.VOLCANO:
            return kept(MIN_AVAILABLE, "is now minMember of a PodGroup", path=finding.path)
        return finding

    def _translation(self, subject: Subject, view: PodView) -> Translation:
        """The translation of one template, as a pod of its owner that is given to the owner's scheduler."""
        template = at(subject.document.raw, view.path)
        template = template if isinstance(template, Mapping) else {}
        metadata, spec = template.get("metadata") or {}, template.get("spec") or {}
        if isinstance(metadata, Mapping):
            metadata = {**metadata, "name": subject.name, "namespace": subject.namespace}
        raw: dict[str, Any] = {**template, "metadata": metadata, "spec": spec}
        if view.scheduler and isinstance(spec, Mapping) and not spec.get("schedulerName"):
            raw["spec"] = {**spec, "schedulerName": view.scheduler}
        found = translate(raw, self.target, self.registry, self.settings)
        return replace(found, edits=(), findings=(_PLACED,)) if view.placed and found.source is not None else found

    def _apart(
        self, subject: Subject, raw: Json, translated: list[TranslatedObject]
    ) -> tuple[list[Json], list[TranslatedObject]]:
        templates = [at(raw, view.path) for view in subject.pods]
        try:
            parts, findings = jobs.taken_apart(
                raw, [each if isinstance(each, dict) else {} for each in templates], self.target, self.settings
            )
        except WireError as error:
            parts, findings = (), (refused(error.key, error.why, "correct it"),)
        translated = [_translated(subject, findings=findings), *translated]
        return (list(parts) if parts else [dict(subject.document.raw)]), translated

    def _missing_groups(self, subject: Subject, translated: Iterable[TranslatedObject]) -> Mapping[str, Json]:
        """The gangs that only annotations of pods describe, which Volcano wants as objects."""
        if self.target is not Dialect.VOLCANO or any(each.fidelity is Fidelity.REFUSED for each in translated):
            return {}
        found: dict[str, Json] = {}
        for view in subject.pods:
            labels, annotations = view.labels, view.annotations
            name = labels.get(GROUP) or labels.get(OLD_GROUP) or annotations.get(GANG_NAME)
            members = annotations.get(MIN_AVAILABLE, "")
            full_name = f"{subject.namespace}/{name}"
            if name and members.isdecimal() and full_name not in self.groups:
                queue = {"queue": labels[QUOTA]} if labels.get(QUOTA) else {}
                found[full_name] = {
                    "apiVersion": objects.VOLCANO_GROUP,
                    "kind": "PodGroup",
                    "metadata": {"name": name, "namespace": subject.namespace},
                    "spec": {"minMember": int(members), **queue},
                }
        return found


def _translated(
    subject: Subject, *, part: str = "", source: Dialect | None = None, findings: tuple[TranslationFinding, ...] = ()
) -> TranslatedObject:
    return TranslatedObject(
        document=subject.document,
        kind=subject.kind,
        name=subject.full_name,
        part=part,
        source=source,
        findings=findings,
    )


def _inside(base: Path, findings: Iterable[TranslationFinding]) -> tuple[TranslationFinding, ...]:
    return tuple(replace(each, path=(*base, *each.path)) for each in findings)


def _listed(top: Json, base: Path, becomes: Sequence[Json]) -> Json:
    """The list with other objects at the place of one of its items; further ones at its end."""
    return made(top, (PutEdit(base, becomes[0]), *(AppendEdit(base[:-1], each) for each in becomes[1:])))


def _top(document: Document) -> Json:
    """The whole document that an item belongs to."""
    value = document.file.places[document.number].value
    return dict(value) if isinstance(value, dict) else {}


def _unserved(subjects: Iterable[Subject]) -> frozenset[str]:
    return frozenset(each.name for each in subjects if each.kind == "Namespace" and _UNSERVED_LABEL in each.labels)


def _gangs(subjects: Iterable[Subject], registry: Registry, settings: TranslationOptions) -> frozenset[str]:
    """The gangs of which some member asks for cards, by full name."""
    found: set[str] = set()
    for subject in subjects:
        for view in subject.pods:
            named = next((each[2] for words in Dialect if view.pod and (each := named_group(view.pod, words))), None)
            if named is not None and view.pod is not None and words_of(view.pod, registry, settings):
                found.add(f"{subject.namespace}/{named}")
    return frozenset(found)
