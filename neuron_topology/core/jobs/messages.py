"""What was done to a job and what remains to be said, once for tasks that are alike: TorchX makes one for each pod."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from hami_plugins.plan.slices import runs
from neuron_topology.core.jobs.demands import DemandRemark
from neuron_topology.core.jobs.templates import TemplateChange

_TASK: Final = re.compile(r"\btasks\[(\d+)\]")


def sentences(found: Iterable[TemplateChange | DemandRemark]) -> tuple[str, ...]:
    """A sentence each, in the order in which they come first; what differs in the task alone is one: ``tasks[0-3]``."""
    tasks: dict[tuple[str, str, str], list[int]] = {}
    for each in found:
        task = _TASK.search(each.path)
        before, after = (each.path[: task.start()], each.path[task.end() :]) if task else (each.path, "")
        tasks.setdefault((before, after, each.what), []).extend([int(task[1])] if task else [])
    return tuple(
        f"{before}{f'tasks[{runs(numbers)}]' if numbers else ''}{after}: {what}"
        for (before, after, what), numbers in tasks.items()
    )
