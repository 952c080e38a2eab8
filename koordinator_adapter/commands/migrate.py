"""The work of ``migrate``: a plan of steps, and the steps taken or taken back with a journal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final, Literal

from typing_extensions import TypedDict

from hami_plugins.cli.kit import inputs, output
from hami_plugins.cli.kit.edge import Exit
from hami_plugins.cli.kit.inputs import ClusterSource
from hami_plugins.cli.kit.options import Form
from hami_plugins.errors import ManifestError, WireError
from hami_plugins.inputs.snapshots.trimmer import one_by_one
from hami_plugins.kube.client import connect
from hami_plugins.kube.port import Collection, KubeApi
from hami_plugins.model.units import MEBIBYTE, MiB, NodeName
from hami_plugins.output.schema import API_VERSION
from hami_plugins.wire import koordinator_devices
from hami_plugins.wire.fields import Json
from hami_plugins.wire.koordinator import MEMORY
from hami_plugins.wire.koordinator_devices import MODEL_LABEL, DeviceObject
from koordinator_adapter.commands import migration_journal as journals
from koordinator_adapter.commands.migration_journal import MigrationJournal, Scope
from koordinator_adapter.commands.migration_steps import StepOutcome, taken, taken_back
from koordinator_adapter.commands.options import MigrateOptions
from koordinator_adapter.core.migration.kinds import (
    QUOTAS,
    SERVED,
    is_group,
    is_named,
    is_quota,
    kind_of,
    name_of,
    served,
)
from koordinator_adapter.core.migration.planner import MigrationPlan, MigrationSource, planned
from koordinator_adapter.core.translation.model import Fidelity, TranslationOptions
from koordinator_adapter.core.translation.reader import complete
from koordinator_adapter.core.translation.vocabulary import DEVICE_ID_LABEL

_DEVICES: Final = Collection("/apis/scheduling.koordinator.sh/v1alpha1/devices", "Device", optional=True)
_CLUSTER: Final = "/api/v1/namespaces/default"
_TONES: Final = {Fidelity.LOSSLESS: "dim", Fidelity.LOSSY: "warn", Fidelity.REFUSED: "bad"}
_POD: Final = ("v1", "Pod")


DUMP: Final = (
    "kubectl get deployments,statefulsets,daemonsets,replicasets,cronjobs,jobs,pods,"
    "devices.scheduling.koordinator.sh,podgroups.scheduling.sigs.k8s.io -A -o json"
)
"""The command that writes all of it into a file, except Volcano's groups and Jobs, which few clusters have."""


class MigrationStepDocument(TypedDict):
    """One step: what it is for, of which object, and what is done."""

    kind: Literal["record", "group", "workload"]
    name: str
    words: str


class MigrationRemarkDocument(TypedDict):
    """Something to know about an object, changed or left."""

    name: str
    fidelity: Literal["lossless", "lossy", "refused"]
    about: str
    words: str
    remedy: str


class MigrationDocument(TypedDict):
    """The answer of ``hami-plugins koordinator migrate`` without ``--apply``."""

    apiVersion: str
    kind: Literal["Migration"]
    target: Literal["hami", "volcano", "koordinator"]
    steps: list[MigrationStepDocument]
    remarks: list[MigrationRemarkDocument]


def migrate(order: MigrateOptions, settings: TranslationOptions) -> int:
    """Print the plan; with ``apply`` take its steps, or go on with those of the journal, or take them back."""
    if order.apply and order.source.snapshots:
        raise ManifestError("--apply cannot be combined with --snapshot")
    if order.undo:
        return _undo(order)
    if order.apply and order.journal.exists():
        return _go_on(order)
    cluster = None if order.source.snapshots else _connected(order.source)
    found = _found(order, cluster)
    if cluster is None:
        _tell_lacking(found, order)
    plan = _plan(order, settings, found)
    if not order.apply or cluster is None:
        _print(plan, order.form)
        return Exit.FINDINGS if plan.refused else Exit.FINE
    _tell_left(plan)
    if not plan.steps:
        output.line("nothing to do")
        return Exit.FINDINGS if plan.refused else Exit.FINE
    journal = journals.begun(order.journal, scope=_scope(order, cluster), planned=plan.steps)
    well = _take(taken(journal, cluster), journal)
    return Exit.FINE if well and not plan.refused else Exit.FINDINGS


def _go_on(order: MigrateOptions) -> int:
    """The steps of a journal that are still to come."""
    journal, cluster = _known(order)
    if journal.scope != (wanted := _scope(order, cluster)):
        raise ManifestError(
            f"{order.journal}: this is {journal.scope}, and {wanted} is wanted; give another --journal, or the "
            "matching options (-n, --to, --records)"
        )
    if journal.undone:
        raise ManifestError(f"{order.journal}: this migration has been undone; give another --journal")
    if journal.complete:
        raise ManifestError(f"{order.journal}: this migration is done; give another --journal, or --undo")
    output.remark(f"{order.journal}: going on with {journal.scope} that was begun")
    return Exit.FINE if _take(taken(journal, cluster), journal) else Exit.FINDINGS


def _undo(order: MigrateOptions) -> int:
    journal, cluster = _known(order)
    if journal.scope.namespace != order.within:
        raise ManifestError(f"{order.journal}: this is {journal.scope}; give its namespace, or another --journal")
    if not order.apply:
        for number in journal.begun:
            output.line(f"{number + 1:4}  {journal.steps[number].name}: will be restored")
        output.line(f"{len(journal.begun)} steps; --apply undoes them")
        return Exit.FINE
    return Exit.FINE if _take(taken_back(journal, cluster), journal) else Exit.FINDINGS


def _known(order: MigrateOptions) -> tuple[MigrationJournal, KubeApi]:
    """The journal and its cluster. Raises ``ManifestError`` where it is another's."""
    if not order.journal.exists():
        raise ManifestError(f"{order.journal}: no such journal")
    journal = journals.read(order.journal)
    cluster = _connected(order.source)
    if journal.scope.cluster != _uid(cluster):
        raise ManifestError(
            f"{order.journal}: this journal is of another cluster's migration; give the --journal of this one"
        )
    return journal, cluster


def _connected(source: ClusterSource) -> KubeApi:
    return connect(kubeconfig=source.kubeconfig, context=source.context)


def _uid(cluster: KubeApi) -> str:
    return str(cluster.get(_CLUSTER)["metadata"]["uid"])


def _scope(order: MigrateOptions, cluster: KubeApi) -> Scope:
    return Scope(
        cluster=_uid(cluster),
        namespace=order.within,
        target=order.target.value,
        records_only=order.records,
    )


def _take(outcomes: Iterable[StepOutcome], journal: MigrationJournal) -> bool:
    """Tell each step as it happens; whether all went well."""
    well = False
    try:
        found = []
        for each in outcomes:
            output.line(f"{each.number + 1:4}  {each.step.name}: {each.words}", "" if each.well else "bad")
            found.append(each.well)
        well = all(found)
    finally:
        if not well:
            output.remark(f"{journal.path} records the executed steps; --apply resumes from there, --undo undoes them")
    return well


def _plan(order: MigrateOptions, settings: TranslationOptions, found: MigrationSource) -> MigrationPlan:
    registry = complete(inputs.registry_of(inputs.settings_of(order.settings)))
    informed = _informed(settings, (found.devices or {}).values())
    return planned(found, order.target, registry, informed, records_only=order.records)


def _informed(settings: TranslationOptions, published: Iterable[DeviceObject]) -> TranslationOptions:
    """The settings, completed from Device objects where they are unset."""
    known = list(published)
    cards = [card for each in known for card in each.cards]
    sizes = {MiB(card.resources[MEMORY].ceiling // MEBIBYTE) for card in cards if MEMORY in card.resources}
    return replace(
        settings,
        models=settings.models
        or tuple(sorted({each.labels[MODEL_LABEL] for each in known if MODEL_LABEL in each.labels})),
        device_labels=settings.device_labels or (bool(cards) and all(DEVICE_ID_LABEL in card.labels for card in cards)),
        card_memory=settings.card_memory or max(sizes, default=None),
        card_sizes=frozenset(sizes),
    )


def _found(order: MigrateOptions, cluster: KubeApi | None) -> MigrationSource:
    workloads: list[Json] = []
    owned: list[Json] = []
    groups: list[Json] = []
    quotas: list[Json] = []
    pods: list[Json] = []
    devices: dict[NodeName, DeviceObject] = {}
    for raw in _named(_objects(order, cluster)):
        if koordinator_devices.is_one(raw) and raw.get("kind") == koordinator_devices.KIND:
            if (published := _published(raw)) is not None:
                devices[published.node] = published
            continue
        if is_quota(raw, order.target):
            quotas.append(raw)
        namespace = (raw.get("metadata") or {}).get("namespace", "default")
        if order.within and namespace != order.within:
            continue
        if raw.get("kind") == "Pod":
            pods.append(raw)
        if is_group(raw):
            groups.append(raw)
        if served(raw):
            workloads.append(raw)
        elif kind_of(raw) in SERVED and raw.get("kind") != "Pod":
            owned.append(raw)
    return MigrationSource(
        workloads=tuple(workloads),
        owned=tuple(owned),
        groups=tuple(groups),
        quotas=tuple(quotas),
        pods=tuple(pods),
        devices=devices,
    )


def _tell_lacking(found: MigrationSource, order: MigrateOptions) -> None:
    """Kinds that a dump lacks. Raises ``ManifestError`` for a dump without anything that a migration reads."""
    where = f"{order.source.words()}: no %s{f' of namespace {order.within}' if order.within else ''} in it"
    if not (found.workloads or found.owned or found.groups or found.pods):
        words = where % "workloads and no pods"
        raise ManifestError(f"{words}; give another -n or -A, or a dump created with: {DUMP}")
    if found.pods and all(kind_of(raw) == _POD for raw in (*found.workloads, *found.owned)):
        words = where % "Deployments or the like"
        output.remark(f"{words}, so no workload is migrated; create a dump with:  {DUMP}")


def _published(raw: Json) -> DeviceObject | None:
    """An unreadable one is reported and skipped: allocations of pods there are refused, and the others count."""
    try:
        return koordinator_devices.decode(raw)
    except WireError as error:
        output.remark(f"{error}; correct the Device object, or have it published anew")
        return None


def _named(found: Iterable[Json]) -> Iterator[Json]:
    """The objects, without those of a dump that no API server can have named so."""
    for raw in found:
        if kind_of(raw) in SERVED and not is_named(raw):
            output.remark(f"{name_of(raw)}: the name of an object is text without /; it is passed over")
        else:
            yield raw


def _objects(order: MigrateOptions, cluster: KubeApi | None) -> Iterator[Json]:
    """Every object that matters, each with its API version and kind."""
    if cluster is None:
        for raw, _ in inputs.objects(order.source):
            for each in one_by_one(raw):
                yield {"apiVersion": "v1", **each}
        return
    for page in cluster.pages(_DEVICES):
        yield from ({"apiVersion": koordinator_devices.API_VERSION, **raw} for raw in page)
    if order.target in QUOTAS:
        quotas = QUOTAS[order.target]
        for page in cluster.pages(Collection(quotas.path, quotas.kind, optional=True)):
            yield from ({"apiVersion": quotas.version, "kind": quotas.kind, **raw} for raw in page)
    within = f"/namespaces/{order.within}" if order.within else ""
    for (version, kind), reached in SERVED.items():
        collection = Collection(f"{reached.prefix}{within}/{reached.plural}", kind, optional=True)
        for page in cluster.pages(collection):
            yield from ({"apiVersion": version, **raw} for raw in page)


def _print(plan: MigrationPlan, form: Form) -> None:
    if form is not Form.TABLE:
        output.document(_document(plan), form)
        return
    for number, step in enumerate(plan.steps, start=1):
        output.line(f"{number:4}  {step.name}: {step.words}")
    _tell_left(plan)
    count = len(plan.steps)
    output.line(f"{count} step{'' if count == 1 else 's'} to {plan.target}; nothing is written without --apply")


def _tell_left(plan: MigrationPlan) -> None:
    for each in plan.left:
        told = each.finding
        remedy = f"; {told.remedy}" if told.remedy else ""
        output.line(f"{told.fidelity}: {each.name}: {told.about}: {told.words}{remedy}", _TONES[told.fidelity])


def _document(plan: MigrationPlan) -> MigrationDocument:
    return {
        "apiVersion": API_VERSION,
        "kind": "Migration",
        "target": plan.target.value,
        "steps": [{"kind": each.kind.value, "name": each.name, "words": each.words} for each in plan.steps],
        "remarks": [
            {
                "name": each.name,
                "fidelity": each.finding.fidelity.value,
                "about": each.finding.about,
                "words": each.finding.words,
                "remedy": each.finding.remedy,
            }
            for each in plan.left
        ],
    }
