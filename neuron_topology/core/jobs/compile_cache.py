"""Where the pods of a job keep compiled graphs, and whether a second job finds there what a first one has compiled.

Source: Neuron's compile cache (``NEURON_COMPILE_CACHE_URL``, and ``--cache_dir`` in ``NEURON_CC_FLAGS``, which wins).
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from hami_plugins.wire import lenient
from hami_plugins.wire.fields import Json

URL_ENV: Final = "NEURON_COMPILE_CACHE_URL"
FLAGS_ENV: Final = "NEURON_CC_FLAGS"
_FOLDER: Final = "--cache_dir="


class CompileCache(NamedTuple):
    """A folder in the container, or the URL of a bucket, and the claim whose volume has it; empty: no claim's."""

    path: str
    claim: str = ""

    @property
    def lasts(self) -> bool:
        """Whether it is still there after the pod."""
        return bool(self.claim) or "://" in self.path


def caches(job: Json) -> frozenset[CompileCache]:
    """Those of all containers of a job."""
    found = set()
    for task in lenient.mappings(lenient.inside(job, "spec").get("tasks")):
        pod = lenient.inside(task, "template", "spec")
        claims = claims_of(pod)
        for container in lenient.mappings(pod.get("containers")):
            if path := _path(container):
                found.add(CompileCache(path, _claim_at(path, container, claims)))
    return frozenset(found)


def claims_of(pod: Mapping[str, Any]) -> dict[str, str]:
    """The claims that a pod names, by the names of its volumes."""
    found = {}
    for volume in lenient.mappings(pod.get("volumes")):
        if claim := lenient.text(lenient.inside(volume, "persistentVolumeClaim").get("claimName")):
            found[lenient.text(volume.get("name"))] = claim
    return found


def lost(precompiling: Json, training: Json) -> str:
    """Why the second job would not find what the first has compiled, and what to do; empty where it does."""
    filled, read = caches(precompiling), caches(training)
    if not filled:
        return "no container names a compile cache, so that the graphs are lost with their pods; add --cache CLAIM"
    for each in sorted(filled):
        if not each.lasts:
            return f"{URL_ENV} {each.path} is in no volume of a claim, so that the graphs are lost; add --cache CLAIM"
    if filled != read:
        there, wanted = (", ".join(sorted(each.path for each in some)) or "none" for some in (filled, read))
        return f"{URL_ENV} is {there} for precompiling and {wanted} for training; give both the same one"
    return ""


def _path(container: Mapping[str, Any]) -> str:
    values = {
        lenient.text(each.get("name")): lenient.text(each.get("value"))
        for each in lenient.mappings(container.get("env"))
    }
    try:
        flags = shlex.split(values.get(FLAGS_ENV, ""))
    except ValueError:  # the compiler refuses such flags itself
        flags = []
    folders = [each.removeprefix(_FOLDER) for each in flags if each.startswith(_FOLDER)]
    return folders[-1] if folders else values.get(URL_ENV, "")


def _claim_at(path: str, container: Mapping[str, Any], claims: Mapping[str, str]) -> str:
    """The claim of the innermost mount that a path is in."""
    mounts = [
        (lenient.text(each.get("mountPath")).rstrip("/"), lenient.text(each.get("name")))
        for each in lenient.mappings(container.get("volumeMounts"))
    ]
    around = [(len(place), name) for place, name in mounts if f"{path.rstrip('/')}/".startswith(f"{place}/")]
    return claims.get(max(around)[1], "") if around else ""
