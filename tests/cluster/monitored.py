"""Inputs for the alerts and the dashboard of each chart: recorded scrapes, and faults."""

from __future__ import annotations

import json
import re
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.cluster.helm import ALLOCATOR, KOORDINATOR, VOLCANO_VGPU

SCRAPES: Final = Path("tests/golden/charts").absolute()
MINUTES: Final = 120
_SUFFIXES: Final = ("", "_total", "_bucket", "_sum", "_count")


NEURON_ONLY: Final = ("neuron_", "hami_allocator_gang")
HAMI_ONLY: Final = ("hami_allocator_node_lock",)
"""How families begin that an allocator has for these vendors alone."""


def recorded(name: str, port: int, *, update: bool, without: tuple[str, ...] = ()) -> None:
    """Compare what a process says on a port with the recorded scrape of that name, or with ``update`` record it.

    The recorded one has no name that a real one has not. A process of fewer vendors is ``without`` families that begin
    so, and is not recorded.
    """
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    kept = SCRAPES / f"{name}.metrics"
    if update and not without:
        kept.write_text(text)
    assert {each for each in _names(kept.read_text()) if not each.startswith(without)} <= _names(text)


def _names(text: str) -> frozenset[str]:
    """The names of all families of a scrape."""
    return frozenset(family.name for family in text_string_to_metric_families(text))


@dataclass(frozen=True, slots=True, kw_only=True)
class Monitored:
    """A chart with alerts.

    ``prefix`` begins the names of its metrics; ``scrapes`` are recorded ones (files of ``SCRAPES``) with the name that
    the pod has in a release called ``RELEASE``. ``fires`` has for each alert series by which it fires; ``unseen`` is
    what the recorded processes had no sample of, though they know the names.
    """

    chart: Path
    prefix: str
    scrapes: Mapping[str, str]
    fires: Mapping[str, Mapping[str, str]]
    unseen: Mapping[str, str] = field(default_factory=dict)

    @property
    def alerts(self) -> Path:
        """The rules, as the chart has them."""
        return self.chart / "files" / "alerts.yaml"

    @property
    def runbooks(self) -> frozenset[str]:
        """The headings of the chart's page."""
        lines = (self.chart / "README.md").read_text().splitlines()
        return frozenset(line.removeprefix("### ").strip() for line in lines if line.startswith("### "))

    def rules(self) -> list[Any]:
        """Every alert."""
        return [rule for group in yaml.safe_load(self.alerts.read_text())["groups"] for rule in group["rules"]]

    def queries(self) -> dict[str, str]:
        """Every query of the dashboard, by panel and letter."""
        panels = json.loads((self.chart / "files" / "dashboard.json").read_text())["panels"]
        return {f"{panel['title']} {each['refId']}": each["expr"] for panel in panels for each in panel["targets"]}

    def series(self) -> Iterator[tuple[str, str]]:
        """The recorded scrapes as series that go on for two hours; what counts grows."""
        for name, pod in self.scrapes.items():
            for family in text_string_to_metric_families((SCRAPES / f"{name}.metrics").read_text()):
                for sample in family.samples:
                    labels = {**sample.labels, "instance": name, "namespace": "NAMESPACE", "pod": pod}
                    text = ",".join(f"{key}={json.dumps(held)}" for key, held in sorted(labels.items()))
                    counts = family.type in {"counter", "histogram"} and not sample.name.endswith("_created")
                    yield f"{sample.name}{{{text}}}", f"{sample.value}+{int(counts)}x{MINUTES}"

    def said(self) -> frozenset[str]:
        """Every name that a query may ask for."""
        return frozenset(
            family.name + suffix
            for name in self.scrapes
            for family in text_string_to_metric_families((SCRAPES / f"{name}.metrics").read_text())
            for suffix in _SUFFIXES
        )

    def asked(self) -> frozenset[str]:
        """Every name of ours that alerts, panels and ``unseen`` have."""
        texts = [*(rule["expr"] for rule in self.rules()), *self.queries().values(), *self.unseen]
        return frozenset(name for text in texts for name in re.findall(rf"\b{self.prefix}\w+", text))


_AGENT: Final = 'instance="n1",namespace="NAMESPACE",pod="RELEASE-agent-x"'
_SERVER: Final = 'instance="s1",namespace="NAMESPACE",pod="RELEASE-x-y"'
_NEURON_AGENT: Final = 'instance="n1",namespace="NAMESPACE",pod="RELEASE-neuron-agent-x"'
_PART: Final = 'instance="n1",namespace="NAMESPACE",pod="RELEASE-node-x"'

MONITORED: Final[Mapping[str, Monitored]] = {
    "volcano-vgpu": Monitored(
        chart=VOLCANO_VGPU,
        prefix="volcano_vgpu",
        scrapes={"agent": "RELEASE-agent-x"},
        fires={
            "VolcanoVgpuAgentAway": {f"up{{{_AGENT}}}": "0x120"},
            "VolcanoVgpuAgentNotRegistered": {f"volcano_vgpu_registered{{{_AGENT}}}": "0x120"},
            "VolcanoVgpuCardUnhealthy": {f'volcano_vgpu_card_healthy{{{_AGENT},uuid="GPU-1"}}': "0x120"},
            "VolcanoVgpuContainersRefused": {f'volcano_vgpu_refusals_total{{{_AGENT},reason="allocation"}}': "0+2x120"},
            "VolcanoVgpuMemoryStranded": {
                f'volcano_vgpu_card_memory_stranded_bytes{{{_AGENT},uuid="GPU-1"}}': "60x120",
                f'volcano_vgpu_card_memory_bytes{{{_AGENT},uuid="GPU-1"}}': "100x120",
            },
        },
        # The recorded node's cards are not cards, and nothing was refused.
        unseen={
            'volcano_vgpu_card_memory_used_bytes{instance="agent",uuid="GPU-1"}': "1073741824x120",
            'volcano_vgpu_container_memory_used_bytes{instance="agent",namespace="a",pod="p",uuid="GPU-1"}': "1x120",
            'volcano_vgpu_refusals_total{instance="agent",reason="allocation"}': "0+1x120",
        },
    ),
    "koordinator-adapter": Monitored(
        chart=KOORDINATOR,
        prefix="koordinator_adapter",
        scrapes={"koordinator-server": "RELEASE-x-y", "koordinator-node": "RELEASE-node-x"},
        fires={
            "KoordinatorAdapterAway": {f"up{{{_SERVER}}}": "0x120"},
            "KoordinatorAdapterPodsUnlimited": {f"koordinator_adapter_unlimited_pods{{{_SERVER}}}": "1x120"},
            "KoordinatorAdapterCertificateEnds": {
                f"koordinator_adapter_tls_certificate_expiry_timestamp_seconds{{{_SERVER}}}": "86400x120"
            },
            "KoordinatorAdapterNobodyPublishes": {f"koordinator_adapter_active{{{_SERVER}}}": "0x120"},
            "KoordinatorAdapterDeviceObjectsUnknown": {
                f"koordinator_adapter_device_objects_missing{{{_SERVER}}}": "1x120"
            },
            "KoordinatorAdapterWritesFail": {f'koordinator_adapter_writes_total{{{_SERVER},what="failed"}}': "0+2x120"},
            "KoordinatorAdapterNodesNotAsTheyCouldBe": {f"koordinator_adapter_node_remarks{{{_SERVER}}}": "1x120"},
            "KoordinatorAdapterNodePartAway": {f"up{{{_PART}}}": "0x120"},
            "KoordinatorAdapterLibraryMissing": {f"koordinator_adapter_node_library_installed{{{_PART}}}": "0x120"},
            "KoordinatorAdapterLimitsNotPromised": {
                f"koordinator_adapter_node_limits_promised{{{_PART}}}": "0x120",
                f"koordinator_adapter_node_library_installed{{{_PART}}}": "1x120",
            },
        },
    ),
    "allocator": Monitored(
        chart=ALLOCATOR,
        prefix="(?:hami_allocator|neuron)_",
        scrapes={"allocator": "RELEASE-x-y", "neuron-agent": "RELEASE-neuron-agent-x"},
        fires={
            "HamiAllocatorAway": {f"hami_allocator_active{{{_SERVER}}}": "0x120"},
            "HamiAllocationsWrong": {f'hami_allocator_findings{{{_SERVER},finding="no-cards"}}': "1x120"},
            "HamiAllocatorUnseenBindings": {
                f'hami_allocator_answers_total{{{_SERVER},kind="binding",outcome="unknown"}}': "0+1x120"
            },
            "HamiAllocatorCertificateEnds": {
                f"hami_allocator_tls_certificate_expiry_timestamp_seconds{{{_SERVER}}}": "86400x120"
            },
            "HamiDevicePluginUnanswered": {
                f'hami_allocator_node_lock_releases_total{{{_SERVER},reason="plugin-unanswered"}}': "0+1x120"
            },
            "NeuronDevicesHeldBroken": {f"neuron_devices_held_broken{{{_SERVER}}}": "1x120"},
            "NeuronGangIncomplete": {f'hami_allocator_gangs{{{_SERVER},state="partial"}}': "1x120"},
            "NeuronSetsFragmented": {
                f'neuron_nodes_fragmented{{{_SERVER},devices="8"}}': "6x120",
                f'neuron_nodes_fitting{{{_SERVER},devices="8"}}': "4x120",
            },
            "NeuronAgentAway": {f"up{{{_NEURON_AGENT}}}": "0x120"},
            "NeuronRegisterStale": {f'neuron_agent_check_passing{{{_NEURON_AGENT},check="counters"}}': "0x120"},
            "NeuronDeviceBroken": {f'neuron_agent_devices{{{_NEURON_AGENT},state="broken"}}': "1x120"},
            "NeuronDeviceErrors": {
                f'neuron_agent_device_errors_total{{{_NEURON_AGENT},device="3",kind="memory-repairable"}}': "0x90 1x30"
            },
            "NeuronDeviceStrangers": {f'neuron_agent_strangers{{{_NEURON_AGENT},reason="outside-pods"}}': "1x120"},
            "NeuronDevicesDiffer": {f"neuron_agent_differing_pods{{{_NEURON_AGENT}}}": "1x120"},
            "NeuronDevicePluginMissing": {f"neuron_agent_device_plugin_missing{{{_NEURON_AGENT}}}": "1x120"},
        },
        # The recorded server has refused nothing.
        unseen={'hami_allocator_refusals_total{instance="allocator",reason="no-room"}': "0+1x120"},
    ),
}
"""Charts with alerts, by name."""
