"""The JSON Schema of every document that the command line prints, from the types in ``report.schema``.

``python -m tests.schema`` writes the published file anew.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from pydantic import ConfigDict, TypeAdapter

from hami_plugins import report
from hami_plugins.cli.granting import NeuronConfCheckDocument, VolcanoConfCheckDocument
from hami_plugins.granting.auditing import GrantAuditDocument
from hami_plugins.report import schema
from hami_plugins.report.vet import answers
from hami_plugins.wire.usage import NodeUsageDocument
from koordinator_adapter.doctor.diagnosis import DiagnosisDocument
from koordinator_adapter.migrating import MigrationDocument
from koordinator_adapter.report import TranslationDocument
from neuron_topology.describing import InstanceTypesDocument
from neuron_topology.hypernodes.command import HyperNodesDocument, RanksDocument
from neuron_topology.placement.repairing import UsageMapsDocument
from neuron_topology.simulation.answers import SimulationDocument
from volcano_vgpu.commands import CardsDocument
from volcano_vgpu.verifying import VgpuInstallationDocument

ADAPTER: Final[TypeAdapter[Any]] = TypeAdapter(
    schema.PlanDocument
    | schema.ExplanationDocument
    | schema.ExplanationListDocument
    | schema.VendorListDocument
    | schema.FleetListDocument
    | schema.WrittenDocument
    | NodeUsageDocument
    | answers.VetDocument
    | answers.RulesDocument
    | SimulationDocument
    | TranslationDocument
    | DiagnosisDocument
    | MigrationDocument
    | InstanceTypesDocument
    | RanksDocument
    | HyperNodesDocument
    | UsageMapsDocument
    | GrantAuditDocument
    | VolcanoConfCheckDocument
    | NeuronConfCheckDocument
    | CardsDocument
    | VgpuInstallationDocument,
    config=ConfigDict(use_attribute_docstrings=True, extra="forbid"),
)
PUBLISHED: Final = Path(report.__path__[0]) / "schemas" / "v1alpha1.json"


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
