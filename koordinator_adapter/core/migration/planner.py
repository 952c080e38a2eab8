"""From a cluster's objects to the steps of a migration: first what running pods hold, then groups, then workloads."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from hami_plugins.engine.registry import Registry
from hami_plugins.inputs import manifests
from hami_plugins.inputs.manifests import Document
from hami_plugins.model.dialect import Dialect
from hami_plugins.model.units import NodeName
from hami_plugins.vet.resources import subject_of
from hami_plugins.wire import documents
from hami_plugins.wire.fields import Json
from hami_plugins.wire.gang_keys import COSCHEDULING_LABEL, GROUP_KEY
from hami_plugins.wire.koordinator_devices import DeviceObject
from koordinator_adapter.core.manifests import File, translated
from koordinator_adapter.core.migration.kinds import SERVED, kind_of, name_of, owner_of, path_of, remade
from koordinator_adapter.core.migration.records import records
from koordinator_adapter.core.migration.steps import Left, MigrationStep, StepKind, differences, holds
from koordinator_adapter.core.translation.groups import named_group
from koordinator_adapter.core.translation.model import Fidelity, TranslationOptions, refused
from koordinator_adapter.core.translation.objects import GROUPS, source_of
from koordinator_adapter.core.translation.reader import words_of
from koordinator_adapter.core.translation.submission import submission
from koordinator_adapter.core.translation.vocabulary import GROUP


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationPlan:
    """The steps in their order, and notes."""

    target: Dialect
    steps: tuple[MigrationStep, ...]
    left: tuple[Left, ...] = ()

    @property
    def refused(self) -> bool:
        """Whether anything cannot come along."""
        return any(each.finding.fidelity is Fidelity.REFUSED for each in self.left)


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationSource:
    """What a migration starts from: workloads and groups, pods, and what is published of nodes' cards.

    ``owned`` are workloads that another object creates and reconciles. ``groups`` are all PodGroups, including those
    that are part of another object; ``quotas`` the quotas or queues of the target's scheduler in the whole cluster.
    """

    workloads: tuple[Json, ...] = ()
    owned: tuple[Json, ...] = ()
    groups: tuple[Json, ...] = ()
    quotas: tuple[Json, ...] = ()
    pods: tuple[Json, ...] = ()
    devices: Mapping[NodeName, DeviceObject] | None = None


def planned(
    found: MigrationSource,
    target: Dialect,
    registry: Registry,
    settings: TranslationOptions,
    *,
    records_only: bool = False,
) -> MigrationPlan:
    """The plan. ``registry`` is one of ``reading.complete``."""
    steps, left = records(found.pods, found.devices or {}, target, registry)
    if records_only:
        return MigrationPlan(target=target, steps=tuple(steps), left=tuple(left))
    sources = [
        each for raw in found.workloads for each in manifests.read(documents.dump(submission(raw)), source=name_of(raw))
    ]
    known = replace(
        settings,
        groups=frozenset(name_of(raw).partition("/")[2] for raw in found.groups if source_of(raw) is target),
        quotas=frozenset(name_of(raw).rpartition("/")[2] for raw in found.quotas),
    )
    left += _made_by_others((*found.owned, *found.pods), target, registry, settings)
    files = translated(sources, target, registry, known, namespace="default")
    live = {name_of(raw): raw for raw in found.workloads}
    groups: list[MigrationStep] = []
    workloads: list[tuple[MigrationStep, frozenset[str]]] = []
    for file in files:
        raw = live[file.source]
        left += _left(file)
        if file.refused or not file.changed:
            continue
        fixed = SERVED[kind_of(raw)].fixed
        if fixed:
            left.append(
                Left(
                    name=file.source,
                    finding=refused(
                        str(raw["kind"]),
                        fixed,
                        _by_hand(raw, target, settings, _group_beside(raw, target, registry, settings)),
                    ),
                )
            )
            continue
        for step, of_groups in _of_file(raw, file):
            if step.kind is StepKind.WORKLOAD:
                workloads.append((step, of_groups))
            else:
                groups.append(step)
    missing, conflicts = _missing(groups, found.groups)
    left += conflicts.values()
    steps += missing
    for step, of_groups in workloads:
        if waiting := sorted(of_groups & conflicts.keys()):
            words = f"is not changed: its gang {waiting[0].rpartition('/')[2]} would be another one"
            left.append(
                Left(name=step.name, finding=refused("gang", words, "resolve the findings about that gang first"))
            )
        else:
            steps.append(step)
    return MigrationPlan(target=target, steps=tuple(steps), left=tuple(left))


def _made_by_others(
    made_ones: Iterable[Json], target: Dialect, registry: Registry, settings: TranslationOptions
) -> Iterator[Left]:
    """Each owner that no migration changes, and whose pods ask for cards in other words than the target's."""
    seen: set[str] = set()
    for raw in made_ones:
        owner = owner_of(raw)
        if owner is None or kind_of(owner) in SERVED:
            continue
        namespace = name_of(raw).split("/")[1]
        name = name_of({**owner, "metadata": {"namespace": namespace, "name": owner.get("name", "")}})
        if name in seen or not _asks(raw, target, registry, settings):
            continue
        seen.add(name)
        words = f"{name_of(raw)} is created by it and requests cards; a migration does not change a {owner.get('kind')}"
        yield Left(name=name, finding=refused(str(owner.get("kind")), words, "translate what it was made from"))


def _asks(raw: Json, target: Dialect, registry: Registry, settings: TranslationOptions) -> bool:
    """Whether pods of an object ask for cards in the words of another scheduler."""
    (document,) = manifests.read(documents.dump(submission(raw)), source="")
    found = [
        words_of(view.pod, registry, settings) for view in subject_of(document, namespace="default").pods if view.pod
    ]
    return any(each - {target} for each in found)


def _missing(groups: Iterable[MigrationStep], there: Iterable[Json]) -> tuple[list[MigrationStep], Mapping[str, Left]]:
    """The groups that have to be made, each once, and by path those that are there, or wanted, with another spec."""
    known = {path_of(raw): raw.get("spec") for raw in there}
    found: list[MigrationStep] = []
    conflicts: dict[str, Left] = {}
    for step in groups:
        wanted = (step.made or {}).get("spec")
        if step.at not in known:
            known[step.at] = wanted
            found.append(step)
        elif not holds(known[step.at], wanted):
            words = (
                f"there is one with {documents.dump(known[step.at])} already, and {documents.dump(wanted)} is wanted"
            )
            conflicts[step.at] = Left(
                name=step.name, finding=refused("PodGroup", words, "make the two equal, or delete one of them")
            )
    return [step for step in found if step.at not in conflicts], conflicts


def _of_file(raw: Json, file: File) -> Iterator[tuple[MigrationStep, frozenset[str]]]:
    """The steps of one object, and the PodGroups (their paths) that its pods are of."""
    for document in manifests.read(file.text, source=file.source):
        becomes = dict(document.raw)
        if name_of(becomes) == file.source and kind_of(becomes) == kind_of(raw):
            found = tuple(differences(submission(raw), becomes))
            if found:
                words = f"is translated; {remade(raw)}"
                step = MigrationStep(
                    kind=StepKind.WORKLOAD, name=file.source, at=path_of(raw), words=words, changes=found
                )
                yield step, _groups_of(document)
        else:
            words = "is created; the one of the other scheduler stays"
            yield (
                MigrationStep(
                    kind=StepKind.GROUP, name=name_of(becomes), at=path_of(becomes), words=words, made=becomes
                ),
                frozenset(),
            )


def _groups_of(document: Document) -> frozenset[str]:
    """The paths of the PodGroups of an object's pods, whichever scheduler places them."""
    subject = subject_of(document, namespace="default")
    keys = {
        GROUPS[Dialect.KOORDINATOR]: GROUP,
        GROUPS[Dialect.HAMI]: COSCHEDULING_LABEL,
        GROUPS[Dialect.VOLCANO]: GROUP_KEY,
    }
    return frozenset(
        path_of({"apiVersion": version, "kind": "PodGroup", "metadata": {"namespace": subject.namespace, "name": name}})
        for view in subject.pods
        for version, key in keys.items()
        if (name := view.labels.get(key) or view.annotations.get(key))
    )


def _left(file: File) -> Iterator[Left]:
    for each in file.objects:
        for finding in each.findings:
            if finding.fidelity is not Fidelity.LOSSLESS:
                yield Left(name=file.source, finding=finding)


def _group_beside(raw: Json, target: Dialect, registry: Registry, settings: TranslationOptions) -> str:
    """The PodGroup that has to be translated with a member without cards; empty for pods that request cards."""
    (document,) = manifests.read(documents.dump(submission(raw)), source="")
    for view in subject_of(document, namespace="default").pods:
        if view.pod is None or words_of(view.pod, registry, settings):
            continue
        for words, version in GROUPS.items():
            if words is not target and (named := named_group(view.pod, words)) is not None:
                return f"podgroups.{version.partition('/')[0]}/{named[2]}"
    return ""


def _by_hand(raw: Json, target: Dialect, settings: TranslationOptions, beside: str) -> str:
    """The command that recreates an object in the other dialect, and the PodGroup ``beside`` if needed."""
    _, namespace, name = name_of(raw).split("/")
    kind = str(raw["kind"]).lower()
    kind = "vcjob" if "volcano" in str(raw.get("apiVersion")) else kind
    options = [f"--to {target}", "--submission", "--accept-loss"]
    options += [f"--model {shlex.quote(each)}" for each in settings.models]
    options += ["--device-labels"] if settings.device_labels else []
    file = f"{kind}-{name}.yaml"
    what, verb = (f"{beside} {kind}/{name}", "apply") if beside else (f"{kind} {name}", "create")
    return (
        f"kubectl -n {namespace} get {what} -o yaml | hami-plugins koordinator translate -f - "
        f"{' '.join(options)} > {file} && kubectl -n {namespace} delete {kind} {name} && kubectl {verb} -f {file}"
    )
