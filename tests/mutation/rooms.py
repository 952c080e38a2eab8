"""Which modules are changed, and which tests have to notice."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parent.parent.parent


class Room(NamedTuple):
    """Files or folders below the root of the tree."""

    modules: tuple[str, ...]
    tests: tuple[str, ...]

    def files(self) -> list[Path]:
        """The modules, one by one."""
        found: list[Path] = []
        for each in self.modules:
            path = ROOT / each
            found += sorted(path.rglob("*.py")) if path.is_dir() else [path]
        return found


def _files(folder: str) -> list[str]:
    """The test files of a folder, without those of the folders below it."""
    return [str(path.relative_to(ROOT)) for path in sorted((ROOT / folder).glob("test_*.py"))]


ROOMS: Final[Mapping[str, Room]] = {
    "allocations": Room(
        ("hami_plugins/allocations",),
        ("tests/unit/allocations", "tests/unit/allocator", "tests/golden/test_volcano_allocations.py"),
    ),
    "identity": Room(
        ("volcano_vgpu/core/identity.py",),
        ("tests/unit/volcano_vgpu/test_identity.py",),
    ),
    "shares": Room(
        ("volcano_vgpu/core/shares.py", "volcano_vgpu/core/allocations.py"),
        ("tests/unit/volcano_vgpu", "tests/golden/test_volcano_agent_pods.py"),
    ),
    "sets": Room(
        ("neuron_topology/core/sets",),
        (
            "tests/unit/neuron_topology/allocation",
            "tests/golden/test_neuron_choice.py",
            "tests/golden/test_neuron_sets.py",
        ),
    ),
    "translation": Room(
        ("koordinator_adapter/core/translation",),
        (
            *_files("tests/unit/koordinator_adapter"),
            "tests/golden/test_koordinator_translation.py",
            "tests/golden/test_translations.py",
        ),
    ),
    "victims": Room(
        (
            "hami_plugins/preemption/rules.py",
            "hami_plugins/preemption/reclaim.py",
            "hami_plugins/preemption/preemptor.py",
            "hami_plugins/preemption/grounds.py",
            "hami_plugins/preemption/costs.py",
            "hami_plugins/preemption/proof.py",
            "hami_plugins/plan/preemption.py",
            "hami_plugins/suggest/preemption.py",
        ),
        (
            "tests/unit/preemption/test_rules.py",
            "tests/unit/preemption/test_costs.py",
            "tests/unit/preemption/test_grounds.py",
            "tests/unit/plan/test_preemption.py",
            "tests/unit/explain/test_preemption.py",
            "tests/unit/suggest/test_suggestions.py",
            "tests/unit/suggest/test_sets.py",
            "tests/unit/preemption/test_smallest.py",
            "tests/unit/preemption/test_remembered.py",
        ),
    ),
    "victim-searches": Room(
        (
            "hami_plugins/preemption/bounds.py",
            "hami_plugins/preemption/rows.py",
            "hami_plugins/preemption/search.py",
            "hami_plugins/preemption/node_search.py",
            "hami_plugins/preemption/demand_search.py",
        ),
        (
            "tests/unit/preemption/test_bounds.py",
            "tests/unit/preemption/test_node_search.py",
            "tests/unit/preemption/test_demand_search.py",
            "tests/unit/preemption/test_victim_search.py",
            "tests/unit/preemption/test_remembered.py",
            "tests/unit/preemption/test_rules.py",
            "tests/unit/preemption/test_grounds.py",
            "tests/unit/preemption/test_smallest.py",
            "tests/unit/suggest/test_sets.py",
        ),
    ),
    "volcano-sessions": Room(
        (
            "hami_plugins/preemption/volcano_sessions.py",
            "hami_plugins/allocator/kept_room.py",
            "hami_plugins/allocator/volcano_preemption.py",
            "hami_plugins/allocator/volcano_planner.py",
        ),
        (
            "tests/unit/preemption/test_volcano_sessions.py",
            "tests/unit/volcano_vgpu/allocation/test_preemption.py",
            "tests/unit/volcano_vgpu/allocation/test_kept_room.py",
            "tests/unit/volcano_vgpu/allocation/test_planned_gangs.py",
        ),
    ),
    "evictor": Room(
        (
            "hami_plugins/allocator/evictor.py",
            "hami_plugins/allocator/eviction_notes.py",
            "hami_plugins/allocator/evictions.py",
            "hami_plugins/allocator/victim_planner.py",
        ),
        ("tests/unit/allocator/test_evictor.py", "tests/unit/allocator/test_preemption_settings.py"),
    ),
    "defrag": Room(
        ("hami_plugins/defrag",),
        (*_files("tests/unit/defrag"), "tests/unit/output/test_defrag.py"),
    ),
    "queues": Room(
        (
            "hami_plugins/queueing/queues.py",
            "hami_plugins/queueing/gangs.py",
            "hami_plugins/queueing/cycle.py",
            "hami_plugins/queueing/members.py",
        ),
        (
            "tests/unit/queueing/test_queues.py",
            "tests/unit/queueing/test_gangs.py",
            *_files("tests/unit/plan"),
            *_files("tests/unit/explain"),
            *_files("tests/unit/queueing"),
            "tests/unit/cli/test_linked_gangs.py",
            "tests/unit/cli/test_linked_odd_nodes.py",
            "tests/golden/test_scenarios.py",
        ),
    ),
}
