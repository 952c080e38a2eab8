"""What is written back after a container was served: its segment is erased, its pod's phase is set.

HAMi's scheduler takes a lock and leaves it to the node's plugin, so the agent writes the same for its pods. The
allocator takes no lock on a node of this agent and writes no phase on the pod: then nothing is written. A pod that
another vendor's plugin has still to serve keeps phase and lock until that plugin has.

One patch a pod, conditional on the version that was read, from a thread of its own: no start of a container waits for
it. What has to be written follows from the pod as it is and from what was served (``settled``), so that it does not
matter where the agent, the API server or the connection was lost: at the next start everything is looked at again.

``volcano.sh/vgpu-ids-new`` is never touched: it is Volcano's only record of who holds what (Volcano 1.14.1
``pkg/scheduler/api/devices/nvidia/vgpu/device_info.go``).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Final, Protocol

import structlog

from hami_plugins.errors import ContentionError, KubeError, WireError
from hami_plugins.kube import paths
from hami_plugins.model.units import PodUid
from hami_plugins.model.vendor import VendorSpec
from hami_plugins.vendors.volcano import SPEC
from hami_plugins.wire import pods as wire_pods
from hami_plugins.wire.fields import Json
from hami_plugins.wire.pods import finished
from volcano_vgpu.agent.ports import Pods
from volcano_vgpu.core.assignments import asking
from volcano_vgpu.core.dialects import FAILED, SUCCESS, PodKeys, keys_of
from volcano_vgpu.core.refusals import ContainerRefusal
from volcano_vgpu.core.shares import AllocatedContainer

_TO_ALLOCATE: Final = "devices-to-allocate"
"""What the keys of HAMi's lists end with that have devices for plugins still to serve."""

FIRST_DELAY: Final = 0.05
LONGEST_DELAY: Final = 30.0
CLOCK_SKEW: Final = timedelta(seconds=10)
"""By how much the clock of the scheduler may be ahead of the clock of this node."""

_NOT_FOUND: Final = 404
_UNKNOWN: Final = "?"
"""In place of a version: the pod has to be read anew."""

_log = structlog.get_logger(__name__)


class Patching(Protocol):
    """The part of the API that writes."""

    def merge_patch(self, path: str, body: Json) -> Json:
        """See ``KubeApi``."""


def settled(raw: Json, served: Collection[str], *, failed: bool, spec: VendorSpec = SPEC) -> Mapping[str, str]:
    """The annotations that a pod lacks when these containers were served; none where it has them.

    ``failed``: one of its containers was refused for good. That stays so; a pod that was served once never fails later.
    A container that asks for memory alone has a segment, and the kubelet never asks for it: its segment goes with the
    first that is served.
    """
    try:
        pod = wire_pods.pod(raw)
    except WireError:
        return {}
    keys = keys_of(spec)
    if spec.keys.allocated not in pod.annotations or (keys.phase_is_asked and _unasked(pod.annotations, keys, spec)):
        return {}
    wanted: dict[str, str] = {}
    left = pod.annotations.get(spec.keys.to_allocate)
    if left is not None and served:
        counted = {each.name for each in pod.containers if each.amount(spec.resources.count) is not None}
        done = {at for at, name in enumerate(asking(pod, spec)) if name in served or name not in counted}
        pieces = ["" if at in done else piece for at, piece in enumerate(left.split(";"))]
        wanted[spec.keys.to_allocate] = left = ";".join(pieces)
    phase = pod.annotations.get(keys.phase)
    if phase != SUCCESS and (failed or phase == FAILED):
        wanted |= {keys.phase: FAILED, **keys.settled}
    elif served and not (left or "").strip(";"):
        wanted |= {keys.phase: SUCCESS, **keys.settled}
    return {key: text for key, text in wanted.items() if pod.annotations.get(key) != text}


def _unasked(annotations: Mapping[str, str], keys: PodKeys, spec: VendorSpec) -> bool:
    """Whether no scheduler waits for the phase, or another vendor's plugin has still to serve the pod."""
    others = (text for key, text in annotations.items() if key.endswith(_TO_ALLOCATE) and key != spec.keys.to_allocate)
    return not annotations.get(keys.phase) or any("," in text for text in others)


def unneeded_lock(raw: Json, spec: VendorSpec, now: datetime) -> tuple[datetime, tuple[str, str]] | None:
    """When the lock was taken that HAMi's scheduler holds for a pod on its way to this agent, and the pod's name.

    Such a lock serves no pod, and the start of a container may wait for its image: it need not last so long. ``None``
    for a pod that no scheduler waits for, and for one that another vendor's plugin identifies by the lock.
    """
    metadata = raw.get("metadata") or {}
    annotations = metadata.get("annotations") or {}
    keys = keys_of(spec)
    if not keys.phase_is_asked or spec.keys.allocated not in annotations or _unasked(annotations, keys, spec):
        return None
    taken = bound_at(annotations, now, spec)
    return None if taken is None else (taken, (str(metadata.get("namespace")), str(metadata.get("name"))))


def bound_at(annotations: Mapping[str, str], now: datetime, spec: VendorSpec = SPEC) -> datetime | None:
    """When a scheduler gave the pod to the node: the node's lock was taken just before.

    ``None`` for a time in the future: the owner of a pod may write any, and every later lock would be released for it.
    """
    text = annotations.get(keys_of(spec).bind_time, "")
    if not (text.isascii() and text.isdigit() and len(text) < 12):
        return None
    found = datetime.fromtimestamp(int(text), UTC)
    return found if found <= now + CLOCK_SKEW else None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Task:
    """A pod to be looked at: when, how often that failed, whether one of its containers was refused for good, and which
    version of it was not the newest."""

    due: float
    failures: int = 0
    failed: bool = False
    stale: str = ""


class Bookkeeper:
    """Writes to Volcano what became of its allocations. ``served`` and ``refused`` never wait.

    ``held`` are the containers of a pod that have a specification, and ``known`` all pods that have one;
    ``release_lock`` receives the time until which the node's lock was for pods that are served by now; ``clock`` gives
    seconds.
    """

    def __init__(  # noqa: PLR0913 - what it reads and writes, and what tests choose
        self,
        api: Patching,
        pods: Pods,
        *,
        held: Callable[[PodUid], Collection[str]],
        known: Callable[[], Collection[PodUid]],
        release_lock: Callable[[datetime, tuple[str, str]], None],
        clock: Callable[[], float],
        luck: Random,
        spec: VendorSpec = SPEC,
    ) -> None:
        self._api = api
        self._pods = pods
        self._held = held
        self._known = known
        self._release_lock = release_lock
        self._clock = clock
        self._luck = luck
        self._spec = spec
        self._changed = threading.Condition()
        self._tasks: dict[PodUid, _Task] = {}
        self._working: PodUid | None = None
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="bookkeeper", daemon=True)

    def start(self) -> None:
        """Begin, with all that may have been left undone before; the watch has shown every pod by then."""
        for uid in self._known():
            if self._pods.get(uid) is not None:
                self._add(uid, failed=False)
        self._thread.start()

    def stop(self, timeout: float = 10.0) -> bool:
        """End the thread; what is left is found at the next start. Whether the thread is gone."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        if self._thread.is_alive():
            self._thread.join(timeout)
        return not self._thread.is_alive()

    def served(self, uid: PodUid, containers: Mapping[str, AllocatedContainer]) -> None:  # noqa: ARG002 - the files say it better
        """These containers of a pod have what they were allocated."""
        self._add(uid, failed=False)

    def refused(self, uid: PodUid, container: str, refusal: ContainerRefusal) -> None:  # noqa: ARG002 - it is the pod that fails
        """A container does not get what it asks for; the pod is marked where it never will."""
        if not refusal.heals:
            self._add(uid, failed=True)

    def settle(self, timeout: float) -> bool:
        """Wait until there is nothing left to write; whether that came about within ``timeout`` seconds."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._tasks and self._working is None, timeout)

    @property
    def waiting(self) -> int:
        """How many pods are still to be written."""
        return len(self._tasks)

    def _add(self, uid: PodUid, *, failed: bool) -> None:
        with self._changed:
            task = self._tasks.get(uid) or _Task(due=self._clock())
            self._tasks[uid] = replace(task, failed=failed or task.failed)
            self._changed.notify_all()

    def _run(self) -> None:
        while (picked := self._next()) is not None:
            uid, task = picked
            try:
                again = self._done(uid, task)
            except Exception as error:  # noqa: BLE001 - whatever is wrong with one pod, the others are written
                _log.warning("pod_not_written", pod_uid=uid, attempt=task.failures + 1, error=str(error))
                again = self._later(task, _UNKNOWN)
            with self._changed:
                self._working = None
                if again is not None:
                    newer = self._tasks.get(uid)
                    self._tasks[uid] = again if newer is None else replace(again, failed=again.failed or newer.failed)
                self._changed.notify_all()

    def _next(self) -> tuple[PodUid, _Task] | None:
        """The next pod whose time has come; ``None`` at the end."""
        with self._changed:
            while not self._stopping:
                uid = min(self._tasks, key=lambda each: self._tasks[each].due, default=None)
                wait = None if uid is None else self._tasks[uid].due - self._clock()
                if uid is not None and wait is not None and wait <= 0:
                    self._working = uid
                    return uid, self._tasks.pop(uid)
                self._changed.wait(wait)
            return None

    def _done(self, uid: PodUid, task: _Task) -> _Task | None:
        """Write one pod; the task again where it has to be tried once more. Raises ``KubeError``."""
        raw = self._seen(uid, task)
        if raw is None:
            return None
        metadata = raw["metadata"]
        changes = settled(raw, self._held(uid), failed=task.failed, spec=self._spec)
        if changes:
            place = paths.pod(metadata["namespace"], metadata["name"])
            version = metadata["resourceVersion"]
            about = {"uid": uid, "resourceVersion": version, "annotations": changes}
            try:
                self._api.merge_patch(place, {"metadata": about})
            except ContentionError:
                return self._later(task, version)
            except KubeError as error:
                if error.status == _NOT_FOUND:
                    return None
                raise
            _log.info("pod_written", pod=place, **{key.rpartition("/")[2]: text for key, text in changes.items()})
        annotations = {**(metadata.get("annotations") or {}), **changes}
        taken = bound_at(annotations, datetime.now(UTC), self._spec)
        if taken is not None and annotations.get(keys_of(self._spec).phase) in (SUCCESS, FAILED):
            self._release_lock(taken, (metadata["namespace"], metadata["name"]))
        return None

    def _seen(self, uid: PodUid, task: _Task) -> Json | None:
        """The pod from the watch, or read anew where the watch lags behind; ``None`` when nothing is to be done."""
        raw = self._pods.get(uid)
        if raw is None:
            # The kubelet may be faster than the watch: a pod that is not to be seen there is not gone for that.
            raw = next((each for each in self._pods.read_of_node() if each["metadata"].get("uid") == uid), None)
        elif task.stale in (_UNKNOWN, raw["metadata"].get("resourceVersion")):
            raw = self._pods.read(raw["metadata"]["namespace"], raw["metadata"]["name"])
        if raw is None or raw["metadata"].get("uid") != uid:
            return None
        return None if finished(raw) else raw

    def _later(self, task: _Task, stale: str) -> _Task:
        delay = min(LONGEST_DELAY, FIRST_DELAY * 2.0**task.failures) * self._luck.uniform(0.5, 1.5)
        return replace(task, due=self._clock() + delay, failures=task.failures + 1, stale=stale)
