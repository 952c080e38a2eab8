"""The work of the commands."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal

import structlog
import tenacity
from starlette.applications import Starlette
from typing_extensions import TypedDict

from hami_plugins.cli.kit import output
from hami_plugins.cli.kit.edge import Exit, failed
from hami_plugins.cli.kit.memory import one_heap, rest
from hami_plugins.cli.kit.options import Form
from hami_plugins.cli.kit.service import file_text, stop_on_signals
from hami_plugins.errors import KubeError
from hami_plugins.kube import paths
from hami_plugins.kube.client import KubeClient, connect
from hami_plugins.kube.request_metrics import api_requests
from hami_plugins.observe import logging
from hami_plugins.output.rows import Table, TableRow
from hami_plugins.output.schema import API_VERSION
from hami_plugins.web.probes import probe_routes
from hami_plugins.web.server import WebServer
from volcano_vgpu.agent import config
from volcano_vgpu.agent.app import Agent
from volcano_vgpu.agent.cleanup import Cleaner, Remains
from volcano_vgpu.agent.metrics import AgentMetrics
from volcano_vgpu.commands.uninstallation import AgentRelease, Uninstaller, for_good
from volcano_vgpu.commands.verification import verify
from volcano_vgpu.core import register
from volcano_vgpu.core.health import XidFilter
from volcano_vgpu.core.settings import AgentSettings
from volcano_vgpu.discovery.file import FileDiscovery
from volcano_vgpu.discovery.file_partitions import FilePartitioner
from volcano_vgpu.discovery.nvml import NvmlDiscovery
from volcano_vgpu.discovery.nvml_partitions import NvmlPartitioner
from volcano_vgpu.discovery.partitions import Partitioner
from volcano_vgpu.discovery.port import Discovery, DiscoveryError

COMPONENT: Final = "volcano-vgpu"
CALL_SECONDS: Final = 5.0
"""How long a request to the API server may take while the kubelet waits for an answer."""

READ_AGAIN_SECONDS: Final = 10.0
"""At most so long between two tries to read the own node at the start; until then the kubelet rejects pods for good."""

_log = structlog.get_logger(__name__)


class CardDocument(TypedDict):
    """A card that can be shared, healthy or not."""

    uuid: str
    index: int
    model: str
    memoryMiB: int
    numa: int | None
    """Its NUMA node; null where that is not known."""
    problems: list[str]
    """Why it is not healthy."""


class CardsDocument(TypedDict):
    """The answer of ``hami-plugins volcano-vgpu cards``: the cards of a node, and what they are registered as."""

    apiVersion: Literal["hami-plugins.io/v1alpha1"]
    kind: Literal["VolcanoCards"]
    driver: str
    annotations: dict[str, str]
    capacity: dict[str, str]
    cards: list[CardDocument]
    passedOver: dict[str, str]
    """By card, why it cannot be shared."""


@dataclass(frozen=True, slots=True)
class AgentInputs:
    """What a command was given."""

    config: str | None = None
    device_config: str | None = None
    node_config: str | None = None
    node_name: str | None = None
    cards_file: str | None = None
    context: str | None = None
    kubeconfig: str | None = None

    def settings(self) -> AgentSettings:
        """The settings, without those that hang on the node's labels."""
        environment = dict(os.environ)
        if self.node_name:
            environment["NODE_NAME"] = self.node_name
        found = config.load(
            file_text(self.config) or "",
            environment,
            device_config=file_text(self.device_config),
            node_config=file_text(self.node_config),
        )
        if self.cards_file is not None:
            found = found.model_copy(update={"cards_file": str(Path(self.cards_file).absolute())})
        return found

    def client(self) -> KubeClient:
        """The cluster."""
        return connect(kubeconfig=self.kubeconfig, context=self.context, component=COMPONENT)


def run_agent(inputs: AgentInputs) -> int:
    """Run until a signal ends it."""
    settings = inputs.settings()
    logging.configure(settings.log.level, settings.log.form)
    for concern in settings.concerns:
        _log.warning("setting_disappoints", reason=concern)
    metrics = AgentMetrics()
    client = replace(inputs.client(), on_request=api_requests(metrics.metrics))
    one_heap()
    stop = stop_on_signals()
    labelled = _with_labels(settings, client, stop, _waiting_room(settings, metrics))
    if labelled is None:
        return Exit.FINE
    agent = Agent(
        labelled,
        client,
        discovery_of(labelled),
        metrics=metrics,
        hasty=client.within(CALL_SECONDS),
        partitioner=partitioner_of(labelled),
        # A container's host name is its pod's, for a manifest that does not say more.
        own_pod=os.environ.get("POD_UID") or os.environ.get("HOSTNAME", ""),
    )
    agent.start()
    rest()
    _log.info("agent_started", node=labelled.node, address=":".join(map(str, agent.address)))
    stop.wait()
    agent.stop()
    if _ends_for_good(labelled, client):
        _cleaned(labelled, client)
    _log.info("agent_ended", node=labelled.node)
    return Exit.FINE


def list_cards(inputs: AgentInputs, *, form: Form, headers: bool) -> int:
    """Print the cards and what they would be registered as."""
    if not (inputs.node_name or os.environ.get("NODE_NAME")):
        inputs = replace(inputs, node_name="this-node")
    settings = inputs.settings()
    discovery = discovery_of(settings)
    try:
        discovery.open()
        inventory = discovery.inventory()
    except DiscoveryError as error:
        return failed(str(error))
    finally:
        discovery.close()
    words = register.desired(inventory, settings)
    units = {card.id: card for card in words.registered}
    if form is not Form.TABLE:
        output.document(_document(words, inventory.driver), form)
        return Exit.FINE
    rows = []
    for card in inventory.cards:
        share = units.get(card.uuid)
        said = "; ".join(card.problems) or words.passed_over.get(card.uuid, "")
        slots = "" if share is None else str(share.slots)
        amount = "" if share is None else str(share.memory)
        cells = (card.uuid, str(card.index), card.model, str(card.memory), slots, amount, said or "registered")
        rows.append(TableRow(cells))
    output.table(Table(("UUID", "INDEX", "MODEL", "MIB", "SLOTS", "UNITS", "STATE"), tuple(rows)), headers=headers)
    for uuid, reason in sorted(inventory.passed_over.items()):
        output.remark(f"{uuid}: {reason}")
    return Exit.FINE


def run_clean(inputs: AgentInputs, *, dry_run: bool) -> int:
    """Remove what the agent left, or say what that would be."""
    settings = inputs.settings()
    client = inputs.client()
    labels = (client.get(paths.node(settings.node)).get("metadata") or {}).get("labels") or {}
    settings = settings.on(labels)
    cleaner = Cleaner(settings, client, partitioner_of(settings))
    if (reason := cleaner.blocking_reason()) and not dry_run:
        return failed(reason)
    found = cleaner.left() if dry_run else cleaner.clean()
    code = _print_remains(found, nothing=f"nothing of the agent is left on node {settings.node}", dry_run=dry_run)
    count = settings.names.count
    if found.removed and not dry_run:
        output.remark(
            f"the kubelet may write {count}: 0 again for five minutes; run this again afterwards to remove that as well"
        )
    return code


def run_uninstall(inputs: AgentInputs, *, release: str, dry_run: bool) -> int:
    """Remove what a release leaves in the cluster, or say what that would be."""
    if not (inputs.node_name or os.environ.get("NODE_NAME")):
        inputs = replace(inputs, node_name="any")
    client = inputs.client()
    uninstaller = Uninstaller(client, inputs.settings(), AgentRelease.of(release))
    found = uninstaller.left() if dry_run else uninstaller.remove()
    nothing = f"nothing of release {release} is left except objects that Helm removes"
    return _print_remains(found, nothing=nothing, dry_run=dry_run)


def _print_remains(found: Remains, *, nothing: str, dry_run: bool) -> int:
    """Print what was removed, or would be, and what was kept; ``nothing`` where there is neither."""
    for item in found.removed:
        output.line(f"{'would remove' if dry_run else 'removed'}: {item}")
    for item in found.kept:
        output.line(f"kept: {item}", "warn")
    if not found.removed and not found.kept:
        output.line(nothing)
    return Exit.FINDINGS if found.kept else Exit.FINE


def run_verify(inputs: AgentInputs, *, allocator: str, nodes: bool, patience: float, form: Form) -> int:
    """Prove an installation."""
    if not os.environ.get("NODE_NAME"):
        inputs = replace(inputs, node_name="any")
    client = inputs.client()
    return verify(client, inputs.settings(), allocator=allocator, nodes=nodes, patience=patience, form=form)


def discovery_of(settings: AgentSettings) -> Discovery:
    """Where cards are looked for: the file that is set, or NVIDIA's driver."""
    if settings.cards_file is not None:
        return FileDiscovery(Path(settings.cards_file))
    health = settings.health
    return NvmlDiscovery(counts=XidFilter.of(health.disabled, health.enabled), recovery=health.recovery)


def partitioner_of(settings: AgentSettings) -> Partitioner | None:
    """Who cuts cards, where the operator wants that: in the file that is set, or through NVIDIA's driver."""
    if not settings.makes_instances:
        return None
    if settings.cards_file is not None:
        return FilePartitioner(Path(settings.cards_file))
    return NvmlPartitioner()


def _ends_for_good(settings: AgentSettings, client: KubeClient) -> bool:
    """Whether no other agent follows this one on its node."""
    try:
        labels = (client.get(paths.node(settings.node)).get("metadata") or {}).get("labels") or {}
    except KubeError:
        return False
    return for_good(client, settings.daemon_set, settings.node, labels)


def _cleaned(settings: AgentSettings, client: KubeClient) -> None:
    """The last act of an agent that will not come back."""
    try:
        found = Cleaner(settings, client, partitioner_of(settings)).clean()
    except KubeError as error:
        _log.warning("node_not_cleaned", node=settings.node, error=str(error))
        return
    _log.info("node_cleaned", node=settings.node, removed=len(found.removed), kept=list(found.kept))


def _waiting_room(settings: AgentSettings, metrics: AgentMetrics) -> WebServer:
    """Probes for a process that waits for the API server: it is well, and a restart would not help."""
    ready = {"node": lambda: "this node is not read from the API server yet"}
    return WebServer(
        Starlette(routes=probe_routes(alive={}, ready=ready, metrics=metrics.metrics)),
        host=settings.listen.host,
        port=settings.listen.port,
    )


def _with_labels(
    settings: AgentSettings, client: KubeClient, stop: threading.Event, waiting: WebServer
) -> AgentSettings | None:
    """The settings for a node with its labels; ``None`` where the end comes before the API server answers.

    ``waiting`` answers probes meanwhile.
    """

    def told(state: tenacity.RetryCallState) -> None:
        error = state.outcome.exception() if state.outcome is not None else None
        _log.warning("node_not_read", node=settings.node, error=str(error))
        if state.attempt_number == 1:
            waiting.start()

    patient = tenacity.Retrying(
        retry=tenacity.retry_if_exception_type(KubeError),
        wait=tenacity.wait_random_exponential(multiplier=0.5, max=READ_AGAIN_SECONDS),
        sleep=tenacity.sleep_using_event(stop),
        stop=lambda _state: stop.is_set(),
        before_sleep=told,
        reraise=True,
    )
    try:
        node = patient(client.get, paths.node(settings.node))
    except KubeError:
        return None
    finally:
        waiting.stop()
    return settings.on((node.get("metadata") or {}).get("labels") or {})


def _document(words: register.NodeRegistration, driver: str) -> CardsDocument:
    return {
        "apiVersion": API_VERSION,
        "kind": "VolcanoCards",
        "driver": driver,
        "annotations": dict(words.annotations),
        "capacity": {name: str(amount) for name, amount in words.capacity.items()},
        "cards": [
            {
                "uuid": card.uuid,
                "index": card.index,
                "model": card.model,
                "memoryMiB": card.memory,
                "numa": card.numa,
                "problems": list(card.problems),
            }
            for card in words.cards
        ],
        "passedOver": dict(words.passed_over),
    }
