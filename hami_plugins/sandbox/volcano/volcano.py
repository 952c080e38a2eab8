"""The stand-in as a whole: it follows the cluster, makes what the controllers would make, and places pods."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final

import structlog

from hami_plugins.engine.annotate import annotations_of
from hami_plugins.engine.apply import assigned
from hami_plugins.engine.decide import Decider
from hami_plugins.engine.registry import Registry
from hami_plugins.errors import AlreadyExistsError, HamiPluginsError, KubeError, ManifestError
from hami_plugins.kube import paths
from hami_plugins.kube.port import KubeApi, Selection
from hami_plugins.kube.reflector import Backoff, ObjectChange
from hami_plugins.kube.store import Store
from hami_plugins.library import load_snapshot
from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.model.decisions import Placed
from hami_plugins.plan import Planner, PodPlan
from hami_plugins.queueing.stages import Stage
from hami_plugins.runnable import Runnable
from hami_plugins.sandbox.volcano import jobs, sessions
from hami_plugins.sandbox.volcano.extender import ExtendedSession, ExtenderArguments, ExtenderClient
from hami_plugins.vendors import builtin
from hami_plugins.vendors.volcano import NODE_KEY
from hami_plugins.wire.fields import Json
from hami_plugins.wire.gang_keys import GROUP_KEY

_log = structlog.get_logger(__name__)

_FOLLOWED: Final = {
    "Node": paths.NODES,
    "Pod": paths.PODS,
    "PodGroup": f"/apis/{jobs.GROUP_API}/podgroups",
    "Queue": f"/apis/{jobs.GROUP_API}/queues",
    "Job": f"/apis/{jobs.JOB_API}/jobs",
}
_DEVICES: Final = {"Device": "/apis/scheduling.koordinator.sh/v1alpha1/devices"}
_GONE: Final = frozenset({404, 409})
_RETRY_SECONDS: Final = 0.5
"""Until pods that could not be bound are tried again, although nothing has changed in the cluster."""


class EmulatedVolcano(Runnable):
    """Needs an API server that serves Volcano's kinds. Use it as a context manager, or ``start`` and ``stop`` it.

    ``period`` is the least time between two sessions in seconds; without changes in the cluster there is none.
    ``now_ns`` gives Unix nanoseconds for annotations. As in Volcano 1.14.1, a placed pod is first patched with its six
    annotations and then bound (``trials.md`` V5).

    With ``extenders`` it asks them about the pods that one of them manages, and knows no devices of these itself; each
    group of pods is asked about at one of them. With ``every_scheduler`` it also places pods of other schedulers, one
    by one, as ``plan`` says that those would. With ``leaves_tries`` a gang that does not fit
    leaves the cards of the try on its pods, and the Binding that comes of a later one carries them: the fault of 1.14.1
    (``trials.md`` V19).
    """

    def __init__(  # noqa: PLR0913 - whose stand-in it is, and what of it
        self,
        api: KubeApi,
        *,
        registry: Registry | None = None,
        period: float = 0.2,
        now_ns: Callable[[], int] = time.time_ns,
        extenders: Sequence[ExtenderArguments] = (),
        leaves_tries: bool = False,
        every_scheduler: bool = False,
    ) -> None:
        self._api = api
        self._planner = Planner(registry or builtin())
        self._extenders = tuple(map(ExtenderClient, extenders))
        self._every_scheduler = every_scheduler
        self._leaves_tries = leaves_tries
        self._again = False
        self._period = period
        self._now_ns = now_ns
        self._stores = {
            kind: Store(api, Selection(path, kind), name=f"volcano-{kind.lower()}s", backoff=Backoff(first=0.1, most=5))
            for kind, path in (_FOLLOWED | (_DEVICES if every_scheduler else {})).items()
        }
        self._placed: dict[str, Json] = {}
        self._expanded: set[str] = set()
        self._made: set[tuple[str, str]] = set()
        self._owned: set[tuple[str, str]] = set()
        self._told: dict[str, str] = {}
        self._changed = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="emulated-volcano")
        for store in self._stores.values():
            store.subscribe(self._see)

    def start(self) -> None:
        """Begins to follow the cluster and to place pods."""
        for store in self._stores.values():
            store.start()
        self._thread.start()

    def stop(self) -> None:
        """Ends; pods stay where they are."""
        self._stopping.set()
        self._changed.set()
        if self._thread.is_alive():
            self._thread.join()
        for store in self._stores.values():
            store.stop(timeout=0.0)  # all of them end at the same time
        for store in self._stores.values():
            store.stop()
        for extender in self._extenders:
            extender.close()

    def _see(self, change: ObjectChange) -> None:
        del change
        self._changed.set()

    def _run(self) -> None:
        for store in self._stores.values():
            while not store.synced.wait(0.1):
                if self._stopping.is_set():
                    return
        while not self._stopping.is_set():
            self._changed.wait(_RETRY_SECONDS if self._again else None)
            self._changed.clear()
            self._again = False
            try:
                self._control()
                self._session()
            except HamiPluginsError as error:
                _log.warning("session_broken_off", error=str(error))
                self._changed.set()
            self._stopping.wait(self._period)

    def _control(self) -> None:
        """The controllers: what jobs and pods lack is made, what belonged to a job that is gone is removed."""
        known = {job["metadata"]["uid"]: job for job in self._all("Job")}
        for job in known.values():
            self._expand(job)
        for pod in self._all("Pod"):
            owner = jobs.owner_of(pod)
            if owner in self._expanded and owner not in known:
                self._remove(pod)
            elif sessions.is_volcanos(pod) and sessions.waits(pod) and not sessions.group_of(pod):
                self._group(pod)
        for group in self._all("PodGroup"):
            self._collect(group, known.keys())
        for uid, job in known.items():
            self._tell_job(uid, job)

    def _collect(self, group: Json, jobs_there: Collection[str]) -> None:
        """Removes a PodGroup that was made for a job or a pod that is gone, as the garbage collector would."""
        metadata, owner = group["metadata"], jobs.owner_of(group)
        there = {*jobs_there, *(pod["metadata"]["uid"] for pod in self._all("Pod"))}
        if (metadata["namespace"], metadata["name"]) in self._owned and owner not in there:
            path = _named(f"/apis/{jobs.GROUP_API}", metadata["namespace"], "podgroups", metadata["name"])
            self._try(lambda: self._api.delete(path))

    def _expand(self, job: Json) -> None:
        metadata = job["metadata"]
        if metadata["uid"] in self._expanded or metadata.get("deletionTimestamp"):
            return
        try:
            made = jobs.of_job(job)
        except ManifestError as error:
            _log.warning("job_refused", job=f"{metadata['namespace']}/{metadata['name']}", error=str(error))
            self._expanded.add(metadata["uid"])
            return
        namespace = metadata["namespace"]
        group = made.group["metadata"]["name"]
        if self._stores["PodGroup"].by_name(namespace, group) is None:
            self._make_group(namespace, made.group)
            for pod in made.pods:
                self._create(paths.pods(namespace), pod)
        self._expanded.add(metadata["uid"])

    def _group(self, pod: Json) -> None:
        metadata = pod["metadata"]
        group = jobs.of_pod(pod)
        self._make_group(metadata["namespace"], group)
        body = {"metadata": {"uid": metadata["uid"], "annotations": {GROUP_KEY: group["metadata"]["name"]}}}
        self._try(lambda: self._api.merge_patch(paths.pod(metadata["namespace"], metadata["name"]), body))

    def _make_group(self, namespace: str, group: Json) -> None:
        self._made.add((namespace, group["metadata"]["name"]))
        self._owned.add((namespace, group["metadata"]["name"]))
        self._create(_named(f"/apis/{jobs.GROUP_API}", namespace, "podgroups"), group)

    def _tell_job(self, uid: str, job: Json) -> None:
        metadata, pods = job["metadata"], [pod for pod in self._all("Pod") if jobs.owner_of(pod) == uid]
        group = self._stores["PodGroup"].by_name(metadata["namespace"], f"{metadata['name']}-{uid}")
        least = int(group["spec"].get("minMember", 1)) if group is not None else 1
        status = jobs.job_status(pods, min_available=least)
        before = job.get("status") or {}
        if any(before.get(name) != value for name, value in status.items()):
            path = _named(f"/apis/{jobs.JOB_API}", metadata["namespace"], "jobs", metadata["name"])
            self._try(lambda: self._api.merge_patch(f"{path}/status", {"status": status}))

    def _early(self, pod: Json) -> bool:
        """Whether the watch has shown a pod before the group that was made for it."""
        group = pod["metadata"]["namespace"], sessions.group_of(pod)
        if self._stores["PodGroup"].by_name(*group) is not None:
            self._made.discard(group)
        return group in self._made

    def _session(self) -> None:
        pods = {pod["metadata"]["uid"]: pod for pod in self._all("Pod")}
        self._placed = {uid: pod for uid, pod in self._placed.items() if uid in pods and sessions.waits(pods[uid])}
        self._told = {uid: text for uid, text in self._told.items() if uid in pods}
        waiting = {uid: pod for uid, pod in pods.items() if sessions.waits(pod) and uid not in self._placed}
        ready = {uid: pod for uid, pod in waiting.items() if self._is_ready(pod)}
        for extender in self._extenders:
            managed = _managed(extender, ready)
            ready = {uid: pod for uid, pod in ready.items() if uid not in managed}
            if managed:
                self._extended(ExtendedSession(self._everything(pods), extender), managed.values())
        if ready:
            self._planned(self._everything(pods), ready)

    def _everything(self, pods: Mapping[str, Json]) -> list[Json]:
        """The cluster, with what has been placed and not been seen yet."""
        seen = {**pods, **self._placed}
        kinds = (kind for kind in self._stores if kind not in ("Pod", "Job"))
        return [*seen.values(), *(each for kind in kinds for each in self._all(kind))]

    def _is_ready(self, pod: Json) -> bool:
        """Whether a session can place a waiting pod."""
        if not sessions.is_volcanos(pod):
            return self._every_scheduler
        return bool(sessions.group_of(pod)) and not self._early(pod)

    def _planned(self, everything: Iterable[Json], ready: Mapping[str, Json]) -> None:
        """A session in which this scheduler knows the cards."""
        snapshot = load_snapshot(everything, self._planner.registry)
        by_name = {f"{pod['metadata']['namespace']}/{pod['metadata']['name']}": pod for pod in ready.values()}
        plans = sessions.decide(snapshot, ready.values(), self._planner, now_ns=self._now_ns())
        if self._leaves_tries:
            self._leave_try(snapshot, plans, by_name)
        for plan in plans:
            pod = by_name[plan.pod.full_name]
            if plan.stage is Stage.PLACED and isinstance(plan.decision, Placed):
                self._place(pod, plan, str(plan.decision.node))
            else:
                self._refuse(pod, sessions.unschedulable(plan.words or plan.why))

    def _extended(self, session: ExtendedSession, ready: Iterable[Json]) -> None:
        """A session in which an extender knows the cards."""
        for group, members in sessions.by_group(ready).items():
            for outcome in session.decide(group, members):
                if outcome.node and (why := self._bound(outcome.pod, outcome.node)):
                    self._refuse(outcome.pod, sessions.unschedulable(why, reason="SchedulerError"))
                elif not outcome.node:
                    self._refuse(outcome.pod, sessions.unschedulable(outcome.why))
                self._again = self._again or outcome.pod["metadata"]["uid"] not in self._placed

    def _leave_try(self, snapshot: ClusterSnapshot, plans: Iterable[PodPlan], by_name: Mapping[str, Json]) -> None:
        """Write what the members of gangs that do not fit would have got; nothing takes it off again."""
        decider = Decider(self._planner.registry)
        for plan in plans:
            placed = decider.decide(snapshot, plan.intake.demand, plan.intake.policy)
            pod = by_name[plan.pod.full_name]
            if plan.stage is not Stage.GANG or not isinstance(placed, Placed) or NODE_KEY in plan.pod.annotations:
                continue
            entry = snapshot.nodes[snapshot.position[placed.node]]
            written = annotations_of(plan.pod, placed, entry, self._planner.registry, now_ns=self._now_ns())
            snapshot = assigned(snapshot, plan.pod, placed)
            self._annotate(pod, written)

    def _annotate(self, pod: Json, annotations: Mapping[str, str]) -> bool:
        """Whether a pod could be patched with annotations."""
        metadata = pod["metadata"]
        body = {"metadata": {"uid": metadata["uid"], "annotations": dict(annotations)}}
        return self._try(lambda: self._api.merge_patch(paths.pod(metadata["namespace"], metadata["name"]), body))

    def _place(self, pod: Json, plan: PodPlan, node: str) -> None:
        if plan.annotations and not self._annotate(pod, plan.annotations):
            return
        if why := self._bound(pod, node, plan.annotations):
            self._refuse(pod, sessions.unschedulable(why, reason="SchedulerError"))
            self._again = True

    def _bound(self, pod: Json, node: str, annotations: Mapping[str, str] | None = None) -> str:
        """Binds a pod, and says why that did not work; one that is gone or bound is looked at again in its turn."""
        metadata = pod["metadata"]
        namespace, name = metadata["namespace"], metadata["name"]
        body = sessions.binding(pod, node)
        try:
            came = self._try(lambda: self._api.create(paths.pod_binding(namespace, name), body))
        except KubeError as error:
            _log.warning("pod_not_bound", pod=f"{namespace}/{name}", node=node, error=str(error))
            return f"failed to bind to node {node}: {error}"
        if came:
            self._placed[metadata["uid"]] = sessions.as_placed(pod, annotations or {}, node)
            _log.info("pod_bound", pod=f"{namespace}/{name}", node=node)
        return ""

    def _refuse(self, pod: Json, condition: Mapping[str, Any]) -> None:
        metadata = pod["metadata"]
        if self._told.get(metadata["uid"]) != condition["message"]:
            path = paths.pod_status(metadata["namespace"], metadata["name"])
            body = {"metadata": {"uid": metadata["uid"]}, "status": {"conditions": [dict(condition)]}}
            if self._try(lambda: self._api.merge_patch(path, body)):
                self._told[metadata["uid"]] = condition["message"]

    def _remove(self, pod: Json) -> None:
        metadata = pod["metadata"]
        if not metadata.get("deletionTimestamp"):
            body = {"preconditions": {"uid": metadata["uid"]}}
            self._try(lambda: self._api.delete(paths.pod(metadata["namespace"], metadata["name"]), body=body))

    def _create(self, path: str, body: Json) -> None:
        try:
            self._api.create(path, body)
        except AlreadyExistsError:
            _log.debug("already_there", path=path, object=body["metadata"]["name"])

    def _try(self, write: Callable[[], object]) -> bool:
        """Whether a write came through; an object that is gone or has changed is looked at again in its turn."""
        try:
            write()
        except KubeError as error:
            if error.status not in _GONE:
                raise
            return False
        return True

    def _all(self, kind: str) -> Iterable[Json]:
        return [{"kind": kind, **item} for item in self._stores[kind].all()]


def _managed(extender: ExtenderClient, ready: Mapping[str, Json]) -> dict[str, Json]:
    """The pods that an extender is asked about, with the rest of their groups."""
    groups = {_group_name(pod, uid) for uid, pod in ready.items() if extender.interested(pod)}
    return {uid: pod for uid, pod in ready.items() if _group_name(pod, uid) in groups}


def _group_name(pod: Json, uid: str) -> str:
    group = sessions.group_of(pod)
    return f"{pod['metadata']['namespace']}/{group}" if group else uid


def _named(api: str, namespace: str, plural: str, name: str = "") -> str:
    return f"{api}/namespaces/{namespace}/{plural}" + (f"/{name}" if name else "")
