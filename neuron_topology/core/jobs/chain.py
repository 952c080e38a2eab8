"""Two Volcano Jobs of which the second starts once the first has completed: the first one keeps the second.

So what is left to do is in the cluster and not in the client that waits, which may be killed at any time.

Volcano has two other ways. ``dependsOn`` is for tasks of one job and asks that pods run, not that they have completed.
A JobFlow waits for completed jobs, but drops the annotations of its templates (the expected duration is one), makes
names of its own, starts a deleted job again, and needs rights that users of TorchX do not have.

Source: Volcano 1.14.1 ``pkg/controllers/job/job_controller_actions.go`` and ``pkg/controllers/jobflow``.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from enum import Enum, auto
from typing import Final

import orjson

from hami_plugins.errors import WireError
from hami_plugins.wire import fields, lenient
from hami_plugins.wire.fields import Json
from neuron_topology.core.jobs.patch import is_job

NEXT_KEY: Final = "hami-plugins.io/next-job"
"""On a job: the name of the one that is created in the same namespace once it has completed."""

MANIFEST_KEY: Final = "hami-plugins.io/next-job-manifest"
"""On a job: the next one as JSON, packed (zlib) and in base64: TorchX makes a task of each pod, all alike."""

_MOST: Final = 16 << 20
"""Bytes that a job is unpacked to: ten times what the API server stores."""


class JobOutcome(Enum):
    """How a job ended."""

    WAITING = auto()
    DONE = auto()
    FAILED = auto()


_OUTCOMES: Final = {
    "Completed": JobOutcome.DONE,
    "Failed": JobOutcome.FAILED,
    "Aborted": JobOutcome.FAILED,
    "Terminated": JobOutcome.FAILED,
}


def phase(job: Json) -> str:
    """The phase that Volcano's controller reports; empty before it has seen the job."""
    return lenient.text(lenient.inside(job, "status", "state").get("phase"))


def outcome(job: Json) -> JobOutcome:
    """Whether a job has ended, and how."""
    return _OUTCOMES.get(phase(job), JobOutcome.WAITING)


def keeping(first: Json, following: Json) -> Json:
    """The first job with the next one in its annotations."""
    packed = base64.b64encode(zlib.compress(orjson.dumps(following), level=9)).decode()
    metadata = first["metadata"]
    kept = {NEXT_KEY: following["metadata"]["name"], MANIFEST_KEY: packed}
    return {**first, "metadata": {**metadata, "annotations": {**(metadata.get("annotations") or {}), **kept}}}


def kept_in(first: Json, place: str) -> Json | None:
    """The job that another keeps; ``None`` where it keeps none.

    Raises ``WireError`` for anything but a Volcano Job of the name and the namespace that the first one says: it is
    created with the rights of the reader.
    """
    metadata = fields.member(first, "metadata", place)
    written = fields.text_map(metadata, "annotations", f"{place} metadata")
    packed = written.get(MANIFEST_KEY, "")
    if not packed:
        return None
    key = f"{place} metadata.annotations[{MANIFEST_KEY}]"
    try:
        found = orjson.loads(_unpacked(base64.b64decode(packed, validate=True)))
    except (binascii.Error, zlib.error, orjson.JSONDecodeError) as error:
        raise WireError(key, packed, f"not a packed job; submit the job again ({error})") from error
    inside = lenient.inside(found, "metadata")
    wanted = (written.get(NEXT_KEY), metadata.get("namespace"))
    if not isinstance(found, dict) or not is_job(found) or (inside.get("name"), inside.get("namespace")) != wanted:
        raise WireError(key, packed, f"not the Volcano Job {wanted[0]} of this namespace; submit the job again")
    return found


def _unpacked(data: bytes) -> bytes:
    unpacking = zlib.decompressobj()
    found = unpacking.decompress(data, _MOST)
    if not unpacking.eof:
        raise zlib.error("incomplete, or too large")
    return found
