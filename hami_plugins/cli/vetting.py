"""The work of ``vet``: read, look, print."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hami_plugins.cli import inputs, output
from hami_plugins.cli.edge import Exit
from hami_plugins.cli.inputs import Source
from hami_plugins.cli.options import Form, VetForm
from hami_plugins.errors import ManifestError, ManifestPlace
from hami_plugins.report import vet
from hami_plugins.report.vet import answers, listed
from hami_plugins.report.vet.listed import Cluster
from hami_plugins.vendors.volcano_releases import Grants, Version, version_of

if TYPE_CHECKING:
    from hami_plugins.config.settings import Settings
    from hami_plugins.engine.registry import Registry
    from hami_plugins.report.manifests import Document
    from hami_plugins.report.vet import Finding, Sources

_TONES = {"error": "bad", "warning": "warn", "note": "dim"}
_DOCUMENTS = {VetForm.JSON: Form.JSON, VetForm.SARIF: Form.JSON, VetForm.YAML: Form.YAML}


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What somebody wants to have looked at; ``source`` is ``None`` without a cluster to hold it against.

    ``scheduler`` is the release of Volcano (``volcano-1.14``) and ``grants`` who grants cards there; empty to take what
    is set or found.
    """

    files: tuple[str, ...]
    recursive: bool
    source: Source | None
    namespace: str
    ignore: tuple[str, ...]
    form: VetForm
    settings: str | None
    scheduler: str = ""
    grants: str = ""


def run(order: Order) -> int:
    """Look, print, and say whether anything is wrong; notes are not."""
    if not order.files and order.source is None:
        raise ManifestError(
            "nothing to look at; give manifests with -f FILE, a folder, or - for stdin, or a cluster with --snapshot"
        )
    snapshots = () if order.source is None else order.source.snapshots
    if order.files.count(inputs.STDIN) + snapshots.count(inputs.STDIN) > 1:
        raise ManifestError("stdin can be read once: only one of -f and --snapshot may be -")
    ignored = _ignored(order.ignore)
    settings = inputs.settings_of(order.settings)
    registry = inputs.registry_of(settings)
    names = tuple(name for path in order.files for name in inputs.manifest_files(path, recursive=order.recursive))
    sources = vet.joined(map(_read, names))
    found = vet.vet(
        sources.documents,
        registry,
        vet.VetSettings(
            rules=settings.rules(),
            namespace=order.namespace,
            ignore=ignored,
            release=_release(order.scheduler, settings),
            grants=_grants(order.grants, settings),
        ),
        None if order.source is None else _cluster(order.source, registry),
        unreadable=sources.unreadable,
    )
    _answer(found, order.form, files=len(names), cluster=order.source is not None)
    return Exit.FINDINGS if answers.fails(found) else Exit.FINE


def _release(scheduler: str, settings: Settings) -> Version | None:
    """The release of Volcano that is asked about, else the one that is set."""
    if not scheduler:
        return version_of(settings.volcano.release)
    from hami_plugins.report.plan.differences import release_of

    return release_of(scheduler)


def _grants(named: str, settings: Settings) -> Grants | None:
    """Who grants cards: the same."""
    if not named:
        return settings.volcano.grants
    from hami_plugins.report.plan.differences import grants_of

    return grants_of(named)


def _cluster(source: Source, registry: Registry) -> Cluster:
    """The cluster, and those of its own objects that are looked at."""
    kept: list[Document] = []
    snapshot = inputs.cluster(source, registry, also=lambda raw, place: kept.extend(listed.of(raw, place)))
    return Cluster(snapshot, tuple(kept))


def list_rules(form: VetForm) -> int:
    """Print the table of rules."""
    if form is VetForm.TEXT:
        for rule in vet.RULES:
            output.line(f"{rule.id}  {rule.severity:<8}{rule.name}: {rule.summary}")
    elif form is VetForm.SARIF:
        _print_sarif(())
    else:
        output.document(answers.rules_document(vet.RULES), _DOCUMENTS[form])
    return Exit.FINE


def _answer(found: tuple[Finding, ...], form: VetForm, *, files: int, cluster: bool) -> None:
    if form is VetForm.SARIF:
        _print_sarif(found)
    elif form is VetForm.TEXT:
        for each in found:
            output.line(answers.line(each), _TONES[each.severity])
        output.line(answers.summary(found, files, cluster=cluster), "" if found else "good")
    else:
        output.document(answers.document(found), _DOCUMENTS[form])


def _print_sarif(found: tuple[Finding, ...]) -> None:
    from hami_plugins.observe.build import version
    from hami_plugins.report.vet import sarif

    output.document(sarif.log(found, vet.RULES, version=version()), Form.JSON)


def _ignored(given: tuple[str, ...]) -> frozenset[str]:
    """The rules to leave out, by id or name, each option a list of them."""
    known = {name for rule in vet.RULES for name in (rule.id.lower(), rule.name)}
    words = {word.strip() for text in given for word in text.split(",") if word.strip()}
    strange = sorted(word for word in words if word.lower() not in known)
    if strange:
        raise ManifestError(f"--ignore {strange[0]}: there is no such rule; --list-rules shows them")
    return frozenset(words)


def _read(name: str) -> Sources:
    """The objects of a file; one that is no text is set aside as a whole."""
    source = "stdin" if name == inputs.STDIN else name
    try:
        return vet.read(inputs.read_text(name), source=source)
    except ManifestError as error:
        return vet.Sources((), (vet.Unreadable(ManifestPlace(source, 1, 1, 1), error.why),))
