"""Proves an installation: which nodes offer cards, and whether the allocator answers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Literal

from typing_extensions import TypedDict

from hami_plugins.cli.kit import output, probe
from hami_plugins.cli.kit.edge import Exit
from hami_plugins.cli.kit.options import Form
from hami_plugins.errors import WireError
from hami_plugins.kube.port import KubeApi, Selection
from hami_plugins.model.dialect import Dialect
from hami_plugins.output.rows import Table, TableRow
from hami_plugins.output.schema import API_VERSION
from hami_plugins.wire import volcano
from hami_plugins.wire.fields import Json
from volcano_vgpu.core import hami_register, register
from volcano_vgpu.core.settings import AgentSettings, NodeDialect

_NODES: Final = "/api/v1/nodes"


class VgpuNodeDocument(TypedDict):
    """What one node offers."""

    node: str
    cards: int
    slots: int
    memory: int
    """In units of the memory resource."""
    complaint: str
    """Empty where all is well."""


class VgpuInstallationDocument(TypedDict):
    """The answer of ``hami-plugins volcano-vgpu verify``."""

    apiVersion: Literal["hami-plugins.io/v1alpha1"]
    kind: Literal["VolcanoVgpuInstallation"]
    fine: bool
    complaints: list[str]
    nodes: list[VgpuNodeDocument]


@dataclass(frozen=True, slots=True)
class NodeReport:
    """What one node offers. ``complaint`` is empty where all is well."""

    node: str
    cards: int
    slots: int
    memory: int
    complaint: str = ""


@dataclass(frozen=True, slots=True)
class InstallationReport:
    """What was found; ``complaints`` are about the installation as a whole."""

    nodes: tuple[NodeReport, ...]
    complaints: tuple[str, ...]

    @property
    def fine(self) -> bool:
        """Whether pods can have cards."""
        return not self.complaints and not any(each.complaint for each in self.nodes)


def states(nodes: Iterable[Json], settings: AgentSettings) -> Iterator[NodeReport]:
    """The nodes that say something of cards, in order of their names."""
    for node in sorted(nodes, key=lambda each: str(each["metadata"]["name"])):
        spoken = settings.speaking(_dialect_of(node))
        text = register.register_of(node, spoken.dialect)
        slots = register.allocatable(node, spoken.names.count)
        if not text and slots == 0:
            continue
        cards, registered, complaint = _cards(text, spoken)
        memory = registered if spoken.speaks_hami else register.allocatable(node, spoken.names.memory)
        leftovers = register.annotations_of(node).get(register.LEFTOVERS_KEY, "")
        complaint = complaint or _missing(slots, memory, spoken) or leftovers
        yield NodeReport(str(node["metadata"]["name"]), cards, slots, memory, complaint)


def verdict(api: KubeApi, settings: AgentSettings, *, allocator: str, nodes: bool) -> InstallationReport:
    """Looks once. Raises ``KubeError``."""
    found: tuple[NodeReport, ...] = ()
    complaints: list[str] = []
    if nodes:
        found = tuple(states(_read(api), settings))
        if not found:
            complaints.append(
                "no node offers cards: do the agents run where the cards are (nodeSelector, tolerations)? "
                "Their /readyz shows what is missing"
            )
    if allocator and (why := probe.complaint(allocator)):
        complaints.append(why)
    return InstallationReport(found, tuple(complaints))


def verify(  # noqa: PLR0913 - the options of the command
    api: KubeApi,
    settings: AgentSettings,
    *,
    allocator: str,
    nodes: bool,
    patience: float,
    form: Form,
    sleep: Callable[[float], None] = time.sleep,
) -> int:
    """Look until all is well or ``patience`` seconds have passed, and print what is there."""
    found = verdict(api, settings, allocator=allocator, nodes=nodes)
    waited = 0.0
    while not found.fine and waited < patience:
        sleep(probe.LOOK_SECONDS)
        waited += probe.LOOK_SECONDS
        found = verdict(api, settings, allocator=allocator, nodes=nodes)
    if form is Form.TABLE:
        _print(found, allocator)
    else:
        output.document(_document(found), form)
    return Exit.FINE if found.fine else Exit.FINDINGS


def _read(api: KubeApi) -> list[Json]:
    return [node for page in api.list_pages(Selection(_NODES, "Node")) for node in page.items]


def _dialect_of(node: Json) -> NodeDialect:
    """The dialect that an agent of ours speaks on a node; one of HAMi's own plugin does not count."""
    return Dialect.HAMI if hami_register.is_ours(register.register_of(node, Dialect.HAMI)) else Dialect.VOLCANO


def _cards(text: str, settings: AgentSettings) -> tuple[int, int, str]:
    """The cards of a register, their memory, and what is wrong with it."""
    if not text:
        return 0, 0, "it offers slots and has no register: Volcano places nothing there, or crashes"
    try:
        if settings.speaks_hami:
            found = hami_register.decode(text)
        else:
            found = volcano.decode_register(register.REGISTER_KEY, text)
    except WireError as error:
        return 0, 0, str(error)
    return len(found), sum(card.memory for card in found), ""


def _missing(slots: int, memory: int, settings: AgentSettings) -> str:
    names = settings.names
    if not slots:
        return f"no {names.count} is offered: the agent is not registered with the kubelet; see the agent's /readyz"
    return "" if memory else f"no {names.memory} is offered: the agent could not write it; see its log"


def _print(found: InstallationReport, allocator: str) -> None:
    if found.nodes:
        rows = tuple(
            TableRow(
                (each.node, str(each.cards), str(each.slots), str(each.memory), each.complaint or "serves"),
                "bad" if each.complaint else "good",
            )
            for each in found.nodes
        )
        output.table(Table(("NODE", "CARDS", "SLOTS", "MEMORY", "STATE"), rows), headers=True)
    for line in found.complaints:
        output.line(line, "bad")
    if allocator and found.fine:
        output.line(f"{allocator}: answers")


def _document(found: InstallationReport) -> VgpuInstallationDocument:
    return {
        "apiVersion": API_VERSION,
        "kind": "VolcanoVgpuInstallation",
        "fine": found.fine,
        "complaints": list(found.complaints),
        "nodes": [
            {
                "node": each.node,
                "cards": each.cards,
                "slots": each.slots,
                "memory": each.memory,
                "complaint": each.complaint,
            }
            for each in found.nodes
        ],
    }
