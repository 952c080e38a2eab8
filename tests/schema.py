"""The JSON Schema of every document that the command line prints, from their types.

``python -m tests.schema`` writes the published file anew.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from pydantic import ConfigDict, TypeAdapter

from hami_plugins import output
from hami_plugins.allocator.audit import AuditDocument
from hami_plugins.cli.allocator_takeover import TakeoverCheckDocument
from hami_plugins.cli.kit.allocator import (
    KubeSchedulerConfCheckDocument,
    VolcanoConfCheckDocument,
)
from hami_plugins.output import charges, cost_schema, defrag, findings, node_schema, schema
from hami_plugins.wire.usage import NodeUsageDocument
from koordinator_adapter.commands.migrate import MigrationDocument
from koordinator_adapter.core.doctor.diagnosis import DiagnosisDocument
from koordinator_adapter.core.report import TranslationDocument
from neuron_topology.commands.hypernodes import HyperNodesDocument, RanksDocument
from neuron_topology.commands.instances import InstanceTypesDocument
from neuron_topology.commands.repair import UsageMapsDocument
from neuron_topology.core.simulation.answers import SimulationDocument
from volcano_vgpu.commands.agent import CardsDocument
from volcano_vgpu.commands.verification import VgpuInstallationDocument

ADAPTER: Final[TypeAdapter[Any]] = TypeAdapter(
    schema.PlanDocument
    | schema.ExplanationDocument
    | schema.ExplanationListDocument
    | schema.VendorListDocument
    | schema.FleetListDocument
    | schema.SettingListDocument
    | cost_schema.PriceListDocument
    | schema.WrittenDocument
    | node_schema.NodesDocument
    | defrag.DefragDocument
    | NodeUsageDocument
    | charges.ChargesDocument
    | findings.VetDocument
    | findings.RulesDocument
    | SimulationDocument
    | TranslationDocument
    | DiagnosisDocument
    | MigrationDocument
    | InstanceTypesDocument
    | RanksDocument
    | HyperNodesDocument
    | UsageMapsDocument
    | AuditDocument
    | VolcanoConfCheckDocument
    | KubeSchedulerConfCheckDocument
    | TakeoverCheckDocument
    | CardsDocument
    | VgpuInstallationDocument,
    config=ConfigDict(use_attribute_docstrings=True, extra="forbid"),
)
PUBLISHED: Final = Path(output.__path__[0]) / "schemas" / "v1alpha1.json"


def generated() -> dict[str, Any]:
    """The schema, without the titles that only repeat names."""
    found = ADAPTER.json_schema()
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "https://hami-plugins.io/schemas/v1alpha1.json",
        **_untitled(found),
    }


def published(text: str) -> Any:
    """A document that a command printed, held to the schema."""
    ADAPTER.validate_json(text, strict=True)
    return json.loads(text)


def _untitled(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _untitled(each) for key, each in value.items() if not (key == "title" and isinstance(each, str))}
    return [_untitled(each) for each in value] if isinstance(value, list) else value


if __name__ == "__main__":
    PUBLISHED.parent.mkdir(exist_ok=True)
    PUBLISHED.write_text(json.dumps(generated(), indent=2) + "\n", encoding="utf-8")
