"""The commands of the allocator for a cluster in which HAMi runs: its settings in ours, and what is in the way."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any, Final, Literal

from typing_extensions import TypedDict

from hami_plugins.allocations.manifests import volcano_configuration
from hami_plugins.allocations.takeover.check import findings
from hami_plugins.allocations.takeover.programs import COMPONENT, HAMI_SCHEDULER, RIGHTS, stage_of
from hami_plugins.allocations.takeover.values import (
    TakeoverContext,
    TakeoverFinding,
    TakeoverObjects,
    TakeoverSeverity,
    TakeoverStage,
)
from hami_plugins.allocator.app import product_of
from hami_plugins.allocator.handlers import SCHEDULER_PATH
from hami_plugins.allocator.settings import SETTINGS, AllocatorSettings
from hami_plugins.cli.allocator_server import AllocatorInputs, vendors_of
from hami_plugins.cli.kit import allocator, inputs, output
from hami_plugins.cli.kit.edge import Exit
from hami_plugins.cli.kit.options import Form
from hami_plugins.config import hami_settings, texts
from hami_plugins.engine.registry import Registry
from hami_plugins.errors import ConfigError, KubeError
from hami_plugins.kube.client import KubeClient
from hami_plugins.kube.port import WEBHOOKS, Collection
from hami_plugins.model.dialect import Dialect
from hami_plugins.output.rows import Table, TableRow
from hami_plugins.output.schema import API_VERSION
from hami_plugins.wire import lenient
from hami_plugins.wire.fields import Json

_REVIEWS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_POD_GROUPS: Final = "/apis/scheduling.volcano.sh/v1beta1"
VOLCANO: Final = "volcano-system"
"""Where Volcano's chart puts its scheduler's configuration."""

_CONFIGURATION: Final = "KubeSchedulerConfiguration"
_NOT_FOUND: Final = 404

_TONES: Final = {TakeoverSeverity.ERROR: "bad", TakeoverSeverity.WARNING: "warn", TakeoverSeverity.INFO: ""}


class TakeoverFindingDocument(TypedDict):
    """Something that is missing or in the way; ``info`` is what is so, without being wrong."""

    severity: Literal["error", "warning", "info"]
    object: str
    what: str
    remedy: str


class TakeoverCheckDocument(TypedDict):
    """The answer of ``hami-plugins allocator check``."""

    apiVersion: Literal["hami-plugins.io/v1alpha1"]
    kind: Literal["TakeoverCheck"]
    stage: Literal["neither", "before", "during", "after"]
    """Who changes and binds new pods: HAMi's programs (before), both, ours (after), or neither."""
    findings: list[TakeoverFindingDocument]


def print_settings(values: str | None, device_config: str | None, *, form: Form) -> int:
    """Print the settings that HAMi's own files amount to, and on stderr each word that is not among them.

    Raises ``ConfigError`` for a word whose value the allocator refuses.
    """
    source, given = _document(values)
    place, devices = _document(device_config)
    unwrapped = texts.unwrapped(devices, hami_settings.DEVICE_CONFIG, place)
    found = hami_settings.from_values(given, unwrapped, source=source)
    text = output.as_yaml(found.settings)
    SETTINGS.load(text, {})
    for word in found.untaken:
        output.remark(f"{word.path}: {word.why}")
    if form is Form.JSON:
        output.document(found.settings, form)
    else:
        sys.stdout.write(text)
    return Exit.FINE


def _document(path: str | None) -> tuple[str, dict[str, Any]]:
    return ("", {}) if path is None else allocator.read_document(path)


def check(given: AllocatorInputs, *, snapshots: Sequence[str], account: str, form: Form, headers: bool) -> int:
    """Print what is missing or in the way in a cluster or a listing; 1 if any of it is wrong."""
    settings = given.settings()
    name = account or f"{settings.service.namespace}/{settings.service.name}"
    objects = _listed(snapshots) if snapshots else _live(given.client(), settings, name)
    found = findings(objects, _context(settings))
    _print(found, stage_of(objects), form=form, headers=headers)
    wrong = any(each.severity is not TakeoverSeverity.INFO for each in found)
    return Exit.FINDINGS if wrong else Exit.FINE


def _context(settings: AllocatorSettings) -> TakeoverContext:
    return TakeoverContext(
        product=product_of(settings, vendors_of(settings)),
        known=Registry(spec for spec in inputs.registry_of(settings) if spec.dialect is Dialect.HAMI),
        extender=SCHEDULER_PATH,
        now=datetime.now(UTC),
        evicts=settings.preemption.mode.evicts,
    )


def _print(found: Sequence[TakeoverFinding], stage: TakeoverStage, *, form: Form, headers: bool) -> None:
    if form is not Form.TABLE:
        listed = [{**asdict(each), "severity": each.severity.value} for each in found]
        document = {"apiVersion": API_VERSION, "kind": "TakeoverCheck", "stage": stage.value, "findings": listed}
        output.document(document, form)
        return
    if found:
        rows = tuple(
            TableRow((each.severity.value, each.object, each.what, each.remedy), _TONES[each.severity])
            for each in found
        )
        output.table(Table(("SEVERITY", "OBJECT", "WHAT", "REMEDY"), rows), headers=headers)
    output.line(f"stage: {stage.value}")


def _listed(snapshots: Sequence[str]) -> TakeoverObjects:
    """The objects of a listing: what it does not hold is not known."""
    kinds: dict[str, list[Json]] = {}
    for raw, _ in inputs.objects(inputs.cluster_source(snapshots, None, None, None)):
        for each in _apart(raw):
            kinds.setdefault(lenient.text(each.get("kind")), []).append(each)
    return TakeoverObjects(
        nodes=kinds.get("Node", ()),
        pods=kinds.get("Pod", ()),
        webhooks=kinds.get("MutatingWebhookConfiguration"),
        configurations=_configurations(kinds["ConfigMap"]) if "ConfigMap" in kinds else None,
        volcano=_of_volcano(kinds.get("ConfigMap", ())),
    )


def _apart(raw: object) -> Iterator[Json]:
    items = lenient.mapping(raw).get("items")
    return iter(lenient.mappings(items)) if isinstance(items, list) else iter((lenient.mapping(raw),))


def _live(client: KubeClient, settings: AllocatorSettings, account: str) -> TakeoverObjects:
    """The objects of a cluster; configurations of schedulers are looked for where HAMi and the allocator run."""
    nodes, pods = _all(client, "/api/v1/nodes", "Node"), _all(client, "/api/v1/pods", "Pod")
    namespaces = {settings.service.namespace, *(_namespace(raw) for raw in pods if _is_scheduler(raw))}
    maps = [
        each
        for namespace in sorted(namespaces)
        for each in _all(client, f"/api/v1/namespaces/{namespace}/configmaps", "ConfigMap")
    ]
    return TakeoverObjects(
        nodes=nodes,
        pods=pods,
        webhooks=_all(client, WEBHOOKS.path, WEBHOOKS.kind),
        configurations=_configurations(maps),
        volcano=_of_volcano(_all(client, f"/api/v1/namespaces/{VOLCANO}/configmaps", "ConfigMap")),
        account=account,
        missing=_missing(client, account),
        version=lenient.text(client.get("/version").get("gitVersion")),
        pod_groups=_has(client, _POD_GROUPS),
    )


def _all(client: KubeClient, path: str, kind: str) -> list[Json]:
    return [each for page in client.pages(Collection(path, kind, optional=True)) for each in page]


def _is_scheduler(raw: Json) -> bool:
    return lenient.inside(raw, "metadata", "labels").get(COMPONENT) == HAMI_SCHEDULER


def _namespace(raw: Json) -> str:
    return lenient.text(lenient.inside(raw, "metadata").get("namespace"))


def _of_volcano(maps: Iterable[Json]) -> Mapping[str, Json]:
    """Configurations of Volcano's scheduler; a text that cannot be read is none."""
    return _read((place, text) for name, place, text in _entries(maps) if name == volcano_configuration.CONFIG_MAP)


def _configurations(maps: Iterable[Json]) -> Mapping[str, Json]:
    """Configurations of kube-schedulers in ConfigMaps; a text that cannot be read is none."""
    found = _read((place, text) for _, place, text in _entries(maps) if _CONFIGURATION in text)
    return {place: document for place, document in found.items() if document.get("kind") == _CONFIGURATION}


def _entries(maps: Iterable[Json]) -> Iterator[tuple[str, str, str]]:
    """The name of each ConfigMap, the place of each text in it, and the text."""
    for raw in maps:
        name = lenient.inside(raw, "metadata").get("name", "")
        for key, text in lenient.texts(raw.get("data")).items():
            yield str(name), f"ConfigMap {_namespace(raw)}/{name} {key}", text


def _read(found: Iterable[tuple[str, str]]) -> dict[str, Json]:
    """The documents in texts, by their places."""
    documents: dict[str, Json] = {}
    for place, text in found:
        with suppress(ConfigError):
            documents[place] = texts.mapping(text, place)
    return documents


def _missing(client: KubeClient, account: str) -> list[str] | None:
    """The rights that the allocator's account lacks; ``None`` where this caller may not ask."""
    namespace, _, name = account.partition("/")
    user = f"system:serviceaccount:{namespace}:{name}"
    groups = ["system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated"]
    found: list[str] = []
    for verb, group, resource in RIGHTS:
        kind, _, part = resource.partition("/")
        wanted = {"verb": verb, "group": group, "resource": kind, **({"subresource": part} if part else {})}
        if group:
            wanted["namespace"] = namespace
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {"user": user, "groups": groups, "resourceAttributes": wanted},
        }
        try:
            answer = client.create(_REVIEWS, review)
        except KubeError:
            return None
        if lenient.inside(answer, "status").get("allowed") is not True:
            found.append(f"{verb} {resource}")
    return found


def _has(client: KubeClient, path: str) -> bool | None:
    try:
        client.get(path)
    except KubeError as error:
        return False if error.status == _NOT_FOUND else None
    return True
