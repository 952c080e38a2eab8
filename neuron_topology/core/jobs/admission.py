"""Volcano Jobs patched when they are made, as ``neuron patch`` patches them in files."""

from __future__ import annotations

from typing import Final

from hami_plugins.errors import WireError
from hami_plugins.wire import admission, lenient
from hami_plugins.wire.admission_review import Allowed, Answer, Denied
from hami_plugins.wire.fields import Json
from neuron_topology.core.jobs import patch
from neuron_topology.core.jobs.patch import JobDefaults

_UNREADABLE: Final = 422
_USUAL: Final = JobDefaults()


def admit(raw: Json, defaults: JobDefaults = _USUAL) -> Answer:
    """The answer to the creation of an object: what ``patching.patch`` changes, its remarks as warnings.

    A job that no node can ever meet, or that is not shaped like one, is refused with the reason.
    """
    if not patch.is_job(raw):
        return Allowed()
    named = lenient.inside(raw, "metadata")
    name = named.get("name") or named.get("generateName") or ""
    try:
        found = patch.patch(raw, defaults, place=f"job {name}:")
    except WireError as error:
        return Denied(str(error), _UNREADABLE)
    return Allowed(tuple(admission.patch(raw, found.job)), tuple(str(each) for each in found.remarks))
