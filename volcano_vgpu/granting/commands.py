"""The work of the commands about grants."""

from __future__ import annotations

import base64
import os
import secrets
import socket
import sys
import time
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

import structlog

from hami_plugins.cli import output
from hami_plugins.cli.edge import Exit
from hami_plugins.cli.options import Form
from hami_plugins.cli.service import file_text, stop_on_signals
from hami_plugins.config import texts
from hami_plugins.errors import ConfigError
from hami_plugins.kube.client import KubeClient, connect
from hami_plugins.kube.counting import api_requests
from hami_plugins.kube.port import SNAPSHOT_COLLECTIONS
from hami_plugins.kube.reflector import Change
from hami_plugins.observe import logging
from hami_plugins.report.documents import API_VERSION
from hami_plugins.report.rows import Row, Table
from hami_plugins.vendors.volcano_releases import GRANT_BY_BINDING
from volcano_vgpu.granting import auditing, conf, manifests
from volcano_vgpu.granting.app import EXTENDER_PATH, GrantServer
from volcano_vgpu.granting.books import Books
from volcano_vgpu.granting.metrics import GrantMetrics
from volcano_vgpu.granting.modes import Mode
from volcano_vgpu.granting.settings import GrantSettings, load, spec_of
from volcano_vgpu.memory import undisturbed

COMPONENT: Final = "volcano-vgpu-grants"
STDIN: Final = "-"

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """What a command was given."""

    config: str | None = None
    device_config: str | None = None
    mode: Mode | None = None
    context: str | None = None
    kubeconfig: str | None = None

    def settings(self) -> GrantSettings:
        """The settings; an option wins over all that is written."""
        environment = dict(os.environ)
        if self.mode in (Mode.LEDGER, Mode.GUARD):
            environment["HAMI_PLUGINS__VOLCANO_VGPU_GRANTS__MODE"] = str(self.mode)
        return load(file_text(self.config) or "", environment)

    def client(self) -> KubeClient:
        """The cluster."""
        return connect(kubeconfig=self.kubeconfig, context=self.context, component=COMPONENT)


def run_server(inputs: Inputs) -> int:
    """Run until a signal ends it."""
    settings = inputs.settings()
    logging.configure(settings.log.level, settings.log.form)
    spec = spec_of(file_text(inputs.device_config))
    metrics = GrantMetrics()
    client = replace(inputs.client(), on_request=api_requests(metrics.metrics))
    stop = stop_on_signals()
    server = GrantServer(settings, client, spec, metrics=metrics, identity=_identity(), filling=undisturbed)
    server.start()
    _log.info(
        "grants_started",
        mode=settings.mode.value,
        address=_spelled(server.address),
        webhooks=_spelled(server.webhook_address),
    )
    stop.wait()
    server.stop()
    _log.info("grants_ended")
    return Exit.FINE


def print_conf(inputs: Inputs, *, form: Form) -> int:
    """Print the scheduler's configuration for the mode, and the flags that go with it."""
    settings = inputs.settings()
    mode = inputs.mode or settings.mode
    url = f"http://{settings.service.host}:{settings.listen.port}{EXTENDER_PATH}"
    document = conf.document(mode, url, spec_of(file_text(inputs.device_config)).resources)
    if form is Form.JSON:
        output.document(document, form)
        return Exit.FINE
    output.line(f"# {conf.CONFIG_KEY} of ConfigMap {conf.CONFIG_MAP}, for mode {mode.value}. The plugins for cards are")
    output.line("# what matters; keep your own actions and the others. Restart vc-scheduler after a change.")
    for flag, why in conf.FLAGS[mode].items():
        output.line(f"# vc-scheduler {flag}: {why}")
    sys.stdout.write(output.as_yaml(document))
    return Exit.FINE


def check_conf(inputs: Inputs, *, source: str | None, namespace: str, form: Form, headers: bool) -> int:
    """Check a configuration, out of a file or (without one) out of the cluster."""
    mode = inputs.mode or inputs.settings().mode
    place, text = _conf_text(inputs, source, namespace)
    resources = spec_of(file_text(inputs.device_config)).resources
    found = conf.check(_unwrapped(texts.mapping(text, place), place), mode, resources)
    if form is not Form.TABLE:
        findings = [asdict(each) for each in found]
        document = {"apiVersion": API_VERSION, "kind": "VolcanoConfCheck", "mode": mode.value, "findings": findings}
        output.document(document, form)
    elif found:
        rows = tuple(
            Row((each.severity, each.place, each.what, each.remedy), "bad" if each.severity == "error" else "warn")
            for each in found
        )
        output.table(Table(("SEVERITY", "PLACE", "WHAT", "REMEDY"), rows), headers=headers)
    else:
        output.line(f"{place}: nothing is wrong with it for mode {mode.value}")
    return Exit.FINDINGS if found else Exit.FINE


def print_policy(*, version: str, form: Form) -> int:
    """Print the admission policy of mode ``policy``."""
    if version not in manifests.POLICY_VERSIONS:
        raise ConfigError(f"--version {version}: not one of {', '.join(manifests.POLICY_VERSIONS)}")
    documents = manifests.policy(version)
    if form is Form.JSON:
        output.document({"apiVersion": "v1", "kind": "List", "items": list(documents)}, form)
        return Exit.FINE
    for known, servers in manifests.POLICY_VERSIONS.items():
        output.line(f"# {known}: {servers}")
    later = " and ".join(map(str, GRANT_BY_BINDING.spans))
    output.line(f"# Not with Volcano {later}: there the Binding has the only copy of the grant, which this takes off")
    _documents(documents)
    return Exit.FINE


def print_webhooks(  # noqa: PLR0913 - those of the command
    inputs: Inputs, *, url: str, ca_file: str | None, exempt: list[str], marked_only: bool, form: Form
) -> int:
    """Print the configuration of the webhooks."""
    settings = inputs.settings()
    authority = "" if ca_file is None else base64.b64encode((file_text(ca_file) or "").encode()).decode()
    service = settings.service
    target = manifests.Target(
        configuration=settings.webhooks.configuration,
        service=service.name,
        namespace=service.namespace,
        port=service.port,
        url=url,
        ca=authority,
    )
    document = manifests.webhooks(
        target,
        schedulers=settings.schedulers,
        resources=spec_of(file_text(inputs.device_config)).resources,
        exempt=exempt or manifests.EXEMPT,
        marked_only=marked_only,
    )
    if form is Form.JSON:
        output.document(document, form)
        return Exit.FINE
    _documents((document,))
    return Exit.FINE


def audit(inputs: Inputs, *, form: Form, headers: bool) -> int:
    """List what is wrong with the grants of pods that are bound."""
    settings = inputs.settings()
    spec = spec_of(file_text(inputs.device_config))
    books = Books(spec, settings.rules, keep=settings.reservation, clock=time.monotonic)
    client = inputs.client()
    for collection in SNAPSHOT_COLLECTIONS:
        take = {"Node": books.node_changed, "Pod": books.pod_changed}.get(collection.kind)
        if take is not None:
            for page in client.pages(collection):
                for raw in page:
                    take(Change("added", raw, str((raw.get("metadata") or {}).get("uid"))))
    found = books.findings()
    if form is not Form.TABLE:
        output.document(auditing.document(found), form)
    elif found:
        rows = tuple(
            Row((each.finding.value, each.node, each.device, ", ".join(each.pods), each.text), "bad") for each in found
        )
        output.table(Table(("FINDING", "NODE", "CARD", "PODS", "WHAT"), rows), headers=headers)
    else:
        sizes = books.statistics
        output.line(f"what {sizes.holders} pods hold of {sizes.devices} cards on {sizes.nodes} nodes adds up")
    return Exit.FINDINGS if found else Exit.FINE


def _identity() -> str:
    """This process among the replicas: its pod, so that a container that starts again goes on at once."""
    return os.environ.get("POD_NAME") or f"{socket.gethostname()}-{secrets.token_hex(4)}"


def _conf_text(inputs: Inputs, source: str | None, namespace: str) -> tuple[str, str]:
    """Where a configuration comes from, and its text."""
    if source == STDIN:
        return "stdin", sys.stdin.read()
    if source is not None:
        return source, file_text(source) or ""
    place = f"ConfigMap {namespace}/{conf.CONFIG_MAP}"
    found = inputs.client().get(f"/api/v1/namespaces/{namespace}/configmaps/{conf.CONFIG_MAP}")
    return place, _held(found, place)


def _unwrapped(document: dict[str, Any], place: str) -> dict[str, Any]:
    """The configuration itself, or the one that a ConfigMap's manifest holds."""
    if document.get("kind") != "ConfigMap":
        return document
    return texts.mapping(_held(document, place), f"{place}: {conf.CONFIG_KEY}")


def _held(config_map: Any, place: str) -> str:
    data = config_map.get("data")
    named = sorted(key for key in data if key.endswith(".conf")) if isinstance(data, dict) else []
    key = conf.CONFIG_KEY if conf.CONFIG_KEY in named else next(iter(named), "")
    if not key:
        raise ConfigError(f"{place}: no {conf.CONFIG_KEY} in it; give the file with --check FILE")
    return str(data[key])


def _documents(documents: Any) -> None:
    for document in documents:
        sys.stdout.write(f"---\n{output.as_yaml(document)}")


def _spelled(address: tuple[str, int] | None) -> str:
    return "" if address is None else ":".join(map(str, address))
