"""Names that a Volcano Job's pods will have, and which of them no cluster takes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hami_plugins.wire import fields
from hami_plugins.wire.fields import Json

LONGEST: Final = 63
"""Maximal length of a pod's name, which is also the pod's host name."""


def too_long(job: Json, *, place: str = "job:") -> Iterator[str]:
    """The names of pods that are too long, one for each task that makes them."""
    name = fields.text(fields.member(job, "metadata", place), "name", f"{place} metadata")
    spec = fields.member(job, "spec", place)
    for at, task in enumerate(fields.items(spec, "tasks", f"{place} spec")):
        where = f"{place} spec.tasks[{at}]"
        replicas = fields.number(task, "replicas", where, default=1)
        pod = f"{name}-{fields.text(task, 'name', where) or f'default{at}'}-{max(0, replicas - 1)}"
        if len(pod) > LONGEST:
            yield pod
