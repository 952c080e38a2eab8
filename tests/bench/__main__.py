"""``make bench``: every figure with its spread and target, as a table and as ``build/bench.json``.

Names given on the command line run only the cases whose group has that name.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.bench import (
    adapter,
    agents,
    allocations,
    allocator,
    allocator_chaos,
    claims,
    commands,
    decisions,
    defrag,
    device_plugins,
    gates,
    hami_allocator,
    loading,
    monitor,
    neuron,
    neuron_agent,
    neuron_allocator,
    node,
    simulation,
    translation,
    victims,
    volcano_victims,
)
from tests.bench.measuring import Figure, machine, printed, write

GROUPS: dict[str, Callable[[], Iterator[Figure]]] = {
    "same-state": decisions.same_state,
    "many-states": decisions.many_states,
    "first-sight": decisions.first_sight,
    "replay": decisions.replay,
    "loading": loading.figures,
    "allocations": allocations.figures,
    "allocator": allocator.figures,
    "commands": commands.plan_and_relax,
    "dump": commands.dump,
    "claims": claims.figures,
    "replicas": commands.replicas,
    "gates": gates.figures,
    "victims": victims.figures,
    "volcano-victims": volcano_victims.figures,
    "defrag": defrag.figures,
    "translation": translation.figures,
    "adapter-webhook": adapter.webhook,
    "adapter-devices": adapter.devices,
    "start": commands.start,
    "agent-pieces": node.pieces,
    "agent-list": node.listing,
    "agent-starts": node.starts,
    "agent-process": node.process,
    "monitor": monitor.figures,
    "agents": agents.thousand,
    "hami-allocator": hami_allocator.figures,
    "allocator-chaos": allocator_chaos.figures,
    "device-plugins": device_plugins.figures,
    "neuron": neuron.figures,
    "neuron-agent": neuron_agent.figures,
    "neuron-allocator": neuron_allocator.figures,
    "neuron-simulation": simulation.figures,
}


def main(names: list[str]) -> int:
    """Run the groups, print the table, write the file; a missed target is exit status 1."""
    unknown = sorted(set(names) - set(GROUPS))
    if unknown:
        print(f"no such group: {', '.join(unknown)}; there are {', '.join(GROUPS)}", file=sys.stderr)
        return 2
    figures: list[Figure] = []
    for name, run in GROUPS.items():
        if not names or name in names:
            print(f"{name} ...", file=sys.stderr, flush=True)
            figures.extend(run())
    print(", ".join(f"{key}: {value}" for key, value in machine().items()))
    print(printed(figures))
    write(figures, Path("build") / "bench.json")
    return 0 if all(each.met for each in figures) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
