"""Cambricon's plugin in mode ``dynamic-smlu``, asked twice a container: for cores and for memory.

The first call makes the slice that the annotation names and remembers it; the second marks the pod as assigned and
removes the lock, whichever pod has it. No error marks a pod, and none removes the lock.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from tests.cluster.api import Api, ApiError, Object
from tests.device_plugins.base import (
    JSON_PATCH,
    NODES,
    PODS,
    STRATEGIC,
    Answer,
    PluginError,
    notes_of,
    path_of,
)

LOCK: Final = "cambricon.com/dsmlu.lock"
PROFILE: Final = "CAMBRICON_DSMLU_PROFILE"
ASSIGNED: Final = "CAMBRICON_DSMLU_ASSIGNED"
INSTANCE: Final = "CAMBRICON_DSMLU_PROFILE_INSTANCE"
CORES, MEMORY = "cambricon.com/mlu.smlu.vcore", "cambricon.com/mlu.smlu.vmemory"


@dataclass(kw_only=True)
class CambriconPlugin:
    """The plugin of one node; ``slices`` are the profiles that it has made."""

    api: Api
    node: str
    slices: list[str] = field(default_factory=list)
    _made: dict[str, Answer] = field(default_factory=dict)
    _mutex: threading.Lock = field(default_factory=threading.Lock)

    def allocate(self, counts: Sequence[int]) -> list[Answer]:
        """``allocateDynamicSmlu``: the numbers of ids are not looked at."""
        del counts
        with self._mutex:
            try:
                pod = self._candidate()
            except (ApiError, PluginError) as error:
                self._made.clear()
                raise PluginError(f"failed to get dynamic smlu candidate pods, err {error}") from error
            made = self._made.get(pod["metadata"]["name"])
            return [self._first(pod) if made is None else self._second(pod, made)]

    def _candidate(self) -> Object:
        """``getDynamicSmluCandidatePod``: more than one pod, or container, that waits is an error."""
        selector = f"spec.nodeName={self.node},status.phase=Pending"
        found = [
            pod
            for pod in self.api.items(PODS, fieldSelector=selector)
            if _asking(pod) and notes_of(pod).get(ASSIGNED) == "false"
        ]
        if len(found) > 1:
            raise PluginError("number of dynamic smlu candidate pods large than one")
        if not found:
            raise PluginError("no dynamic smlu candidate pod found")
        if len(_asking(found[0])) > 1:
            raise PluginError("number of containers of dynamic smlu candidate pod large than one")
        return found[0]

    def _first(self, pod: Object) -> Answer:
        profile = notes_of(pod).get(PROFILE)
        if profile is None or len(profile.split("_")) != 3:
            raise PluginError(f"get profile from annotation: {profile}")
        self.slices.append(profile)
        metadata = pod["metadata"]
        given = {"VIRTUAL_DEVICES": f"/dev/cambricon_dev{profile.split('_')[0]}"}
        answer = Answer(metadata["namespace"], metadata["name"], _asking(pod)[0], (profile,), given)
        self._made = {metadata["name"]: answer}
        return answer

    def _second(self, pod: Object, made: Answer) -> Answer:
        self._made.clear()
        slot = made.devices[0].split("_")[0]
        written = {ASSIGNED: "true", INSTANCE: f"1_257_{slot}_1"}
        try:
            self.api.request("PATCH", path_of(pod), {"metadata": {"annotations": written}}, content_type=STRATEGIC)
        except ApiError as error:
            raise PluginError(f"patchPodAnnotation: {error}") from error
        with suppress(ApiError):
            self._release()
        return made

    def _release(self) -> None:
        """``releaseNodeLock``: a JSON patch without the node's version."""
        path = f"{NODES}/{self.node}"
        if LOCK in notes_of(self.api.get(path)):
            removal = [{"op": "remove", "path": f"/metadata/annotations/{LOCK.replace('/', '~1')}"}]
            self.api.request("PATCH", path, removal, content_type=JSON_PATCH)


def _asking(pod: Object) -> list[str]:
    """The containers whose limits name cores or memory; init containers are not looked at."""
    limits = {each["name"]: each.get("resources", {}).get("limits", {}) for each in pod["spec"]["containers"]}
    return [name for name, known in limits.items() if {CORES, MEMORY} & known.keys()]
