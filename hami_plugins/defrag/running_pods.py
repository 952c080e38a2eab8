"""Running pods as they are written, gathered from the raw objects that a snapshot is read from."""

from __future__ import annotations

from hami_plugins.defrag.values import RunningPod
from hami_plugins.errors import WireError
from hami_plugins.inputs.snapshots.trimmer import one_by_one
from hami_plugins.wire import pods
from hami_plugins.wire.fields import Json
from hami_plugins.wire.lenient import text


class RunningPods:
    """``found`` are the pods by ``namespace/name``. A pod that cannot be read is left out; the snapshot reports it."""

    def __init__(self) -> None:
        self.found: dict[str, RunningPod] = {}

    def feed(self, raw: object, _place: str = "") -> None:
        """Take one object; lists are taken apart."""
        for each in one_by_one(raw):
            if each.get("kind") == "Pod":
                self._take(dict(each))

    def _take(self, raw: Json) -> None:
        if not pods.node_of(raw) or pods.finished(raw):
            return
        try:
            pod = pods.pod(raw)
        except WireError:
            return
        self.found[pod.full_name] = RunningPod(pod, controller_of(raw))


def controller_of(raw: Json) -> str:
    """The kind of the object that makes a pod anew; empty for none."""
    return next((text(each.get("kind")) for each in pods.owners(raw) if each.get("controller") is True), "")
