"""What the commands of all allocators share: the process itself, what it needs in a cluster, and the audit."""

from __future__ import annotations

import base64
import os
import secrets
import socket
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from http import HTTPStatus
from typing import Any, Literal
from urllib.parse import urlsplit

import structlog
from typing_extensions import TypedDict

from hami_plugins.allocations.manifests import volcano_configuration
from hami_plugins.allocations.manifests.volcano_configuration import ConfigurationFinding
from hami_plugins.allocations.manifests.webhooks import WebhookTarget
from hami_plugins.allocator import audit as auditing
from hami_plugins.allocator.locked_cache import LockedAllocationCache
from hami_plugins.allocator.server import AllocatorServer
from hami_plugins.cli.kit import output
from hami_plugins.cli.kit.edge import Exit
from hami_plugins.cli.kit.memory import one_heap
from hami_plugins.cli.kit.options import Form
from hami_plugins.cli.kit.service import file_text, stop_on_signals
from hami_plugins.config import texts
from hami_plugins.errors import ConfigError, KubeError
from hami_plugins.kube.client import KubeClient
from hami_plugins.kube.port import SNAPSHOT_COLLECTIONS
from hami_plugins.kube.reflector import ObjectChange
from hami_plugins.output.rows import Table, TableRow
from hami_plugins.output.schema import API_VERSION
from hami_plugins.web.settings import Service
from hami_plugins.wire import lenient

STDIN = "-"

_log = structlog.get_logger(__name__)


class ConfFindingDocument(TypedDict):
    """Something in a configuration of Volcano's scheduler, and what to write instead."""

    severity: Literal["error", "warning"]
    place: str
    what: str
    remedy: str


class VolcanoConfCheckDocument(TypedDict):
    """The answer of ``hami-plugins volcano-vgpu conf --check``."""

    apiVersion: Literal["hami-plugins.io/v1alpha1"]
    kind: Literal["VolcanoConfCheck"]
    mode: str
    findings: list[ConfFindingDocument]


class NeuronConfCheckDocument(TypedDict):
    """The answer of ``hami-plugins neuron conf --check``."""

    apiVersion: Literal["hami-plugins.io/v1alpha1"]
    kind: Literal["NeuronConfCheck"]
    findings: list[ConfFindingDocument]


def identity() -> str:
    """This process among the replicas: its pod, so that a container that starts again goes on at once."""
    return os.environ.get("POD_NAME") or f"{socket.gethostname()}-{secrets.token_hex(4)}"


def serve(server: AllocatorServer, **told: str) -> int:
    """Run a server until a signal ends it; what is ``told`` stands in the log."""
    one_heap()
    stop = stop_on_signals()
    server.start()
    _log.info("allocator_started", **told, address=spelled(server.address), webhooks=spelled(server.webhook_address))
    stop.wait()
    server.stop()
    _log.info("allocator_ended")
    return Exit.FINE


def spelled(address: tuple[str, int] | None) -> str:
    """Where something is served, for the log; empty where it is not."""
    return "" if address is None else ":".join(map(str, address))


def target(service: Service, configuration: str, *, url: str, ca_file: str | None) -> WebhookTarget:
    """Where the API server reaches the webhooks, and what the object is called that says so.

    Raises ``ConfigError`` for a URL that no API server asks.
    """
    if url and not (url.startswith("https://") and urlsplit(url).hostname):
        raise ConfigError(f"--url {url}: an API server asks webhooks over https alone; write https://HOST:PORT")
    authority = "" if ca_file is None else base64.b64encode((file_text(ca_file) or "").encode()).decode()
    return WebhookTarget(
        configuration=configuration,
        service=service.name,
        namespace=service.namespace,
        port=service.port,
        url=url,
        ca=authority,
    )


def print_conf(document: Mapping[str, Any], *, about: str, flags: Mapping[str, str], form: Form) -> int:
    """Print a configuration of Volcano's scheduler, and the flags that go with it."""
    if form is Form.JSON:
        output.document(document, form)
        return Exit.FINE
    output.line(f"# {volcano_configuration.CONFIG_KEY} of ConfigMap {volcano_configuration.CONFIG_MAP}, {about}")
    output.line("# what matters; keep your own actions and the others. Restart vc-scheduler after a change.")
    for flag, why in flags.items():
        output.line(f"# vc-scheduler {flag}: {why}")
    sys.stdout.write(output.as_yaml(document))
    return Exit.FINE


def conf_text(client: KubeClient | None, source: str | None, namespace: str) -> tuple[str, str]:
    """Where a configuration of Volcano's scheduler comes from (without a ``source`` the cluster), and its text."""
    if source == STDIN:
        return "stdin", sys.stdin.read()
    if source is not None:
        return source, file_text(source) or ""
    place = f"ConfigMap {namespace}/{volcano_configuration.CONFIG_MAP}"
    if client is None:
        raise ConfigError(f"{place}: no cluster to read it from; give the file with --check FILE")
    try:
        found = client.get(f"/api/v1/namespaces/{namespace}/configmaps/{volcano_configuration.CONFIG_MAP}")
    except KubeError as error:
        if error.status != HTTPStatus.NOT_FOUND:
            raise
        raise ConfigError(
            f"{place}: not found; give Volcano's namespace with -n, or give the file with --check FILE"
        ) from error
    return place, _held(found, place)


def conf_of(text: str, place: str) -> dict[str, Any]:
    """The configuration itself, or the one that a ConfigMap's manifest holds."""
    document = texts.mapping(text, place)
    if document.get("kind") != "ConfigMap":
        return document
    return texts.mapping(_held(document, place), f"{place}: {volcano_configuration.CONFIG_KEY}")


def print_check(
    found: Sequence[ConfigurationFinding], *, kind: str, place: str, about: Mapping[str, str], form: Form, headers: bool
) -> int:
    """Print what is wrong with a configuration; ``about`` are further members of the document."""
    if form is not Form.TABLE:
        findings = [asdict(each) for each in found]
        output.document({"apiVersion": API_VERSION, "kind": kind, **about, "findings": findings}, form)
    elif found:
        rows = tuple(
            TableRow((each.severity, each.place, each.what, each.remedy), "bad" if each.severity == "error" else "warn")
            for each in found
        )
        output.table(Table(("SEVERITY", "PLACE", "WHAT", "REMEDY"), rows), headers=headers)
    else:
        told = "".join(f" for {name} {value}" for name, value in about.items())
        output.line(f"{place}: no defects{told}")
    return Exit.FINDINGS if found else Exit.FINE


def print_documents(documents: Iterable[Mapping[str, Any]], form: Form) -> int:
    """Print objects to be applied."""
    listed = list(documents)
    if form is Form.JSON:
        whole = listed[0] if len(listed) == 1 else {"apiVersion": "v1", "kind": "List", "items": listed}
        output.document(whole, form)
        return Exit.FINE
    for document in listed:
        sys.stdout.write(f"---\n{output.as_yaml(document)}")
    return Exit.FINE


def audit(books: LockedAllocationCache, client: KubeClient, *, form: Form, headers: bool) -> int:
    """List what is wrong with the allocations of pods that are bound in the cluster of a client; fills the books."""
    for collection in SNAPSHOT_COLLECTIONS:
        take = {"Node": books.node_changed, "Pod": books.pod_changed}.get(collection.kind)
        if take is not None:
            for page in client.pages(collection):
                for raw in page:
                    take(ObjectChange("added", raw, lenient.uid(raw)))
    found, noun = books.findings(), books.product.spec.noun
    if form is not Form.TABLE:
        output.document(auditing.document(found, books.product.audit), form)
    elif found:
        rows = tuple(
            TableRow((each.finding.value, each.node, each.devices, ", ".join(each.pods), each.text), "bad")
            for each in auditing.told(found, noun)
        )
        output.table(Table(("FINDING", "NODE", noun.upper(), "PODS", "WHAT"), rows), headers=headers)
    else:
        sizes = books.statistics
        output.line(f"what {sizes.holders} pods hold of {sizes.devices} {noun}s on {sizes.nodes} nodes adds up")
    return Exit.FINDINGS if found else Exit.FINE


def _held(config_map: Any, place: str) -> str:
    data = config_map.get("data")
    named = sorted(key for key in data if key.endswith(".conf")) if isinstance(data, dict) else []
    key = volcano_configuration.CONFIG_KEY if volcano_configuration.CONFIG_KEY in named else next(iter(named), "")
    if not key:
        raise ConfigError(f"{place}: no {volcano_configuration.CONFIG_KEY} in it; give the file with --check FILE")
    return str(data[key])
