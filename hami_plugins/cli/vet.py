"""The work of ``vet``: read, look, print."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hami_plugins import vet
from hami_plugins.cli.kit import inputs, output
from hami_plugins.cli.kit.edge import Exit, program_name
from hami_plugins.cli.kit.inputs import ClusterSource, cluster_source
from hami_plugins.cli.kit.options import Form, VetForm
from hami_plugins.errors import ManifestError, ManifestPlace
from hami_plugins.output import findings
from hami_plugins.vendors.volcano_releases import DeviceAssigner, Version, known_release
from hami_plugins.vet import cluster_objects
from hami_plugins.vet.cluster_objects import ClusterObjects

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hami_plugins.cli.option_groups import VetOptions
    from hami_plugins.config.settings import Settings
    from hami_plugins.engine.registry import Registry
    from hami_plugins.inputs.manifests import Document
    from hami_plugins.vet import VetFinding, VetSources

_TONES = {"error": "bad", "warning": "warn", "note": "dim"}
_DOCUMENTS = {VetForm.JSON: Form.JSON, VetForm.SARIF: Form.JSON, VetForm.YAML: Form.YAML}


def run(order: VetOptions) -> int:
    """Look, print, and say whether anything is wrong; notes are not."""
    if order.rules_url and not order.rules_url.startswith(("http://", "https://")):
        raise ManifestError(f"--rules-url {order.rules_url}: not an address; write https://...")
    files, source = order.files or (), cluster_source(order.snapshot, order.fleet, None, None)
    if not files and not source.named:
        raise ManifestError(
            "nothing to check; give manifests with -f FILE, a folder, or - for stdin, or a cluster with --snapshot"
        )
    if files.count(inputs.STDIN) + source.snapshots.count(inputs.STDIN) > 1:
        raise ManifestError("stdin can be read once: only one of -f and --snapshot may be -")
    ignored = _ignored(order.ignore or ())
    settings = inputs.settings_of(order.settings)
    registry = inputs.registry_of(settings)
    names = tuple(name for path in files for name in inputs.manifest_files(path, recursive=order.recursive))
    sources = vet.joined(map(_read, names))
    found = vet.vet(
        sources.documents,
        registry,
        vet.VetSettings(
            rules=settings.rules(),
            namespace=order.namespace or "default",
            ignore=ignored,
            release=_release(order.scheduler, settings),
            assigner=_assigner(order.assigner, settings),
        ),
        _cluster(source, registry) if source.named else None,
        unreadable=sources.unreadable,
    )
    if order.form is VetForm.SARIF:
        _print_sarif(found, order.rules_url)
    else:
        _answer(found, order.form, files=len(names), cluster=source.named)
    return Exit.FINDINGS if findings.fails(found) else Exit.FINE


def _release(scheduler: str, settings: Settings) -> Version | None:
    """The release of Volcano that is asked about, else the one that is set."""
    if not scheduler:
        return known_release(settings.volcano.release)
    from hami_plugins.queueing.releases import release_of

    return release_of(scheduler)


def _assigner(named: str, settings: Settings) -> DeviceAssigner | None:
    """Which component assigns devices: the same."""
    if not named:
        return settings.volcano.assigner
    from hami_plugins.queueing.releases import assigner_of

    return assigner_of(named)


def _cluster(source: ClusterSource, registry: Registry) -> ClusterObjects:
    """The cluster, and those of its own objects that are looked at."""
    kept: list[Document] = []
    snapshot = inputs.cluster(source, registry, also=lambda raw, place: kept.extend(cluster_objects.of(raw, place)))
    return ClusterObjects(snapshot, tuple(kept))


def list_rules(form: VetForm, *, rules_url: str = "") -> int:
    """Print the table of rules."""
    if form is VetForm.TEXT:
        for rule in vet.RULES:
            output.prose(f"{rule.id}  {rule.severity:<8}{rule.name}: {rule.summary}")
    elif form is VetForm.SARIF:
        _print_sarif((), rules_url)
    else:
        output.document(findings.rules_document(vet.RULES), _DOCUMENTS[form])
    return Exit.FINE


def _answer(found: tuple[VetFinding, ...], form: VetForm, *, files: int, cluster: bool) -> None:
    if form is VetForm.TEXT:
        _print_text(found)
        output.line(findings.summary(found, files, cluster=cluster), "" if found else "good")
    else:
        output.document(findings.document(found), _DOCUMENTS[form])


def _print_text(found: tuple[VetFinding, ...]) -> None:
    """The findings by file, and how many of each rule there are."""
    file = found[0].file if found else ""
    for group in findings.groups(found):
        if group.first.file != file:
            file = group.first.file
            output.line()
        output.prose(findings.heading(group.first), _TONES[group.first.severity])
        output.prose(f"    {group.first.what}")
        output.prose(f"    fix: {group.first.fix}")
        if group.others:
            output.prose(f"    also: {findings.also(group)}")
    if found:
        output.line()
        output.table(findings.by_rule(found, vet.RULES), headers=False)
        output.line()
        output.prose(f"`{program_name()} vet --explain {found[0].rule}` explains a rule.", "dim")


def explain_rule(name: str, form: VetForm) -> int:
    """Print one rule in full."""
    rule = next((each for each in vet.RULES if name.lower() in {each.id.lower(), each.name}), None)
    if rule is None:
        raise ManifestError(f"--explain {name}: unknown rule; --list-rules lists the rules")
    if form in _DOCUMENTS:
        output.document(findings.rules_document((rule,)), _DOCUMENTS[form])
    else:
        for paragraph in findings.explanation(rule):
            output.prose(paragraph)
    return Exit.FINE


def _print_sarif(found: tuple[VetFinding, ...], rules_url: str) -> None:
    from hami_plugins.observe.build import version
    from hami_plugins.output import sarif

    output.document(sarif.log(found, vet.RULES, version=version(), page=rules_url), Form.JSON)


def _ignored(given: Sequence[str]) -> frozenset[str]:
    """The rules to leave out, by id or name, each option a list of them."""
    known = {name for rule in vet.RULES for name in (rule.id.lower(), rule.name)}
    words = {word.strip() for text in given for word in text.split(",") if word.strip()}
    strange = sorted(word for word in words if word.lower() not in known)
    if strange:
        raise ManifestError(f"--ignore {strange[0]}: unknown rule; --list-rules lists the rules")
    return frozenset(words)


def _read(name: str) -> VetSources:
    """The objects of a file; an undecodable file is set aside as a whole."""
    source = "stdin" if name == inputs.STDIN else name
    try:
        return vet.read(inputs.read_text(name), source=source)
    except ManifestError as error:
        return vet.VetSources((), (vet.UnreadableManifest(ManifestPlace(source, 1, 1, 1), error.why),))
