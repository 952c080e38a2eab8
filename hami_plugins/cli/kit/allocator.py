"""What the commands of all allocators share: the configuration of Volcano's scheduler, and the audit."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from http import HTTPStatus
from typing import Any, Final, Literal

from typing_extensions import TypedDict

from hami_plugins.allocations.manifests import stale_allocations, volcano_configuration
from hami_plugins.allocations.manifests.volcano_configuration import ConfigurationFinding, Severity
from hami_plugins.allocations.product import Product
from hami_plugins.allocator import audit as auditing
from hami_plugins.allocator.locked_cache import LockedAllocationCache
from hami_plugins.cli.kit import output
from hami_plugins.cli.kit.edge import Exit
from hami_plugins.cli.kit.objects import print_documents
from hami_plugins.cli.kit.options import Form
from hami_plugins.cli.kit.service import file_text
from hami_plugins.config import texts
from hami_plugins.errors import ConfigError, KubeError
from hami_plugins.kube.client import KubeClient
from hami_plugins.kube.port import NODES, PODS
from hami_plugins.kube.reflector import ObjectChange
from hami_plugins.output.rows import Table, TableRow
from hami_plugins.output.schema import API_VERSION
from hami_plugins.vendors.volcano_releases import ALLOCATION_BY_BINDING, Version, if_known, version_of_deployment
from hami_plugins.wire import lenient
from hami_plugins.wire.fields import Json

STDIN = "-"

_TONES: Final[Mapping[Severity, str]] = {"error": "bad", "warning": "warn", "info": ""}


class ConfFindingDocument(TypedDict):
    """Something in a configuration of Volcano's scheduler, and what to write instead."""

    severity: Literal["error", "warning", "info"]
    place: str
    what: str
    remedy: str


class VolcanoConfCheckDocument(TypedDict):
    """The answer of ``conf --check`` about Volcano."""

    apiVersion: Literal["hami-plugins.io/v1alpha1"]
    kind: Literal["VolcanoConfCheck"]
    mode: str
    release: str
    findings: list[ConfFindingDocument]


class KubeSchedulerConfCheckDocument(TypedDict):
    """The answer of ``hami-plugins allocator conf --kube-scheduler --check``."""

    apiVersion: Literal["hami-plugins.io/v1alpha1"]
    kind: Literal["KubeSchedulerConfCheck"]
    findings: list[ConfFindingDocument]


def print_conf(
    document: Mapping[str, Any], *, about: str, flags: Mapping[str, str], notes: Sequence[str], form: Form
) -> int:
    """Print a configuration of Volcano's scheduler, and the flags and notes that go with it."""
    if form is Form.JSON:
        output.document(document, form)
        return Exit.FINE
    output.line(f"# {volcano_configuration.CONFIG_KEY} of ConfigMap {volcano_configuration.CONFIG_MAP}, {about}")
    output.line("# what matters; keep your own actions and the others. Restart vc-scheduler after a change.")
    for flag, why in flags.items():
        output.line(f"# vc-scheduler {flag}: {why}")
    for note in notes:
        output.line(f"# {note}")
    sys.stdout.write(output.as_yaml(document))
    return Exit.FINE


def read_conf(client: Callable[[], KubeClient], source: str | None, namespace: str) -> tuple[str, dict[str, Any]]:
    """Where a configuration of Volcano's scheduler comes from (without a ``source`` the cluster), and what it says.

    A file may also be the manifest of the ConfigMap that holds it.
    """
    if source is None:
        place = f"ConfigMap {namespace}/{volcano_configuration.CONFIG_MAP}"
        return place, texts.mapping(_held(_config_map(client(), place, namespace), place), place)
    place, document = read_document(source)
    if document.get("kind") == "ConfigMap":
        document = texts.mapping(_held(document, place), f"{place}: {volcano_configuration.CONFIG_KEY}")
    return place, document


def live_release(client: KubeClient, namespace: str) -> Version | None:
    """The release of Volcano's scheduler in a cluster, ``None`` where it cannot be read or is not a known one."""
    try:
        deployment = client.get(f"/apis/apps/v1/namespaces/{namespace}/deployments/{volcano_configuration.DEPLOYMENT}")
    except KubeError:
        return None
    return if_known(version_of_deployment(deployment))


def read_document(source: str) -> tuple[str, dict[str, Any]]:
    """What a file says, or stdin, with the name of it."""
    place, text = ("stdin", sys.stdin.read()) if source == STDIN else (source, file_text(source) or "")
    return place, texts.mapping(text, place)


def print_check(
    found: Sequence[ConfigurationFinding], *, kind: str, place: str, about: Mapping[str, str], form: Form, headers: bool
) -> int:
    """Print what is wrong with a configuration; ``about`` are further members of the document."""
    if form is not Form.TABLE:
        findings = [asdict(each) for each in found]
        output.document({"apiVersion": API_VERSION, "kind": kind, **about, "findings": findings}, form)
    elif found:
        rows = tuple(
            TableRow((each.severity, each.place, each.what, each.remedy), _TONES[each.severity]) for each in found
        )
        output.table(Table(("SEVERITY", "PLACE", "WHAT", "REMEDY"), rows), headers=headers)
    else:
        told = "".join(f" for {name} {value}" for name, value in about.items() if value)
        output.line(f"{place}: no defects{told}")
    return Exit.FINDINGS if any(each.severity != "info" for each in found) else Exit.FINE


def print_policy(*, version: str, form: Form) -> int:
    """Print the admission policy that removes stale allocations of Volcano from Bindings."""
    if version not in stale_allocations.POLICY_VERSIONS:
        raise ConfigError(f"--version {version}: not one of {', '.join(stale_allocations.POLICY_VERSIONS)}")
    documents = stale_allocations.policy(version)
    if form is Form.JSON:
        output.document({"apiVersion": "v1", "kind": "List", "items": list(documents)}, form)
        return Exit.FINE
    for known, servers in stale_allocations.POLICY_VERSIONS.items():
        output.line(f"# {known}: {servers}")
    later = " and ".join(map(str, ALLOCATION_BY_BINDING.spans))
    output.line(
        f"# Not with Volcano {later}: there the Binding has the only copy of the allocation, and this removes it"
    )
    return print_documents(documents, form)


def audit(product: Product, client: KubeClient, *, keep: float, form: Form, headers: bool) -> int:
    """List what is wrong with the allocations of pods that are bound in the cluster of a client."""
    cache = filled_cache(product, client, keep=keep)
    found, noun = cache.findings(), product.noun
    if form is not Form.TABLE:
        output.document(auditing.document(found), form)
    elif found:
        rows = tuple(
            TableRow((each.finding.value, each.node, each.devices, ", ".join(each.pods), each.text), "bad")
            for each in auditing.told(found, noun)
        )
        output.table(Table(("FINDING", "NODE", noun.upper(), "PODS", "WHAT"), rows), headers=headers)
    else:
        sizes = cache.statistics
        output.line(f"what {sizes.holders} pods hold of {sizes.devices} {noun}s on {sizes.nodes} nodes adds up")
    return Exit.FINDINGS if found else Exit.FINE


def filled_cache(
    product: Product, client: KubeClient, *, keep: float, on_node: Callable[[Json], object] = lambda _node: None
) -> LockedAllocationCache:
    """The nodes of a cluster and what its pods hold there; ``on_node`` gets each Node as it is."""
    cache = LockedAllocationCache(product, keep=keep, clock=time.monotonic)
    for collection in (NODES, PODS):
        take = cache.node_changed if collection is NODES else cache.pod_changed
        for page in client.pages(collection):
            for raw in page:
                take(ObjectChange("added", raw, lenient.uid(raw)))
                if collection is NODES:
                    on_node(raw)
    return cache


def _config_map(client: KubeClient, place: str, namespace: str) -> Json:
    try:
        return client.get(f"/api/v1/namespaces/{namespace}/configmaps/{volcano_configuration.CONFIG_MAP}")
    except KubeError as error:
        if error.status != HTTPStatus.NOT_FOUND:
            raise
        raise ConfigError(
            f"{place}: not found; give Volcano's namespace with -n, or give the file with --check FILE"
        ) from error


def _held(config_map: Any, place: str) -> str:
    data = config_map.get("data")
    named = sorted(key for key in data if key.endswith(".conf")) if isinstance(data, dict) else []
    key = volcano_configuration.CONFIG_KEY if volcano_configuration.CONFIG_KEY in named else next(iter(named), "")
    if not key:
        raise ConfigError(f"{place}: no {volcano_configuration.CONFIG_KEY} in it; give the file with --check FILE")
    return str(data[key])
