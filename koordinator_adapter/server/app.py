"""The adapter's server put together: everything that does IO is made, started and ended here.

Every replica watches the cluster and answers webhooks; the one that holds the lease publishes.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any, Final

from starlette.routing import Route

from hami_plugins.engine.registry import Registry
from hami_plugins.kube import paths
from hami_plugins.kube.election import BoundedApi
from hami_plugins.kube.port import Selection
from hami_plugins.kube.reflector import Backoff, ObjectChange, Reflector, ReflectorOptions
from hami_plugins.model.dialect import Dialect
from hami_plugins.model.units import MiB, NodeName
from hami_plugins.output.schema import API_VERSION
from hami_plugins.web.admission import AdmissionMetrics, AdmissionPath, admission_routes
from hami_plugins.web.documents import DocumentMetrics
from hami_plugins.web.pages import JsonPage
from hami_plugins.web.replica import Replica
from hami_plugins.wire.admission_review import AdmissionRequest, Allowed, Answer
from koordinator_adapter.core import webhooks
from koordinator_adapter.core.admission.mutation import mutate
from koordinator_adapter.core.admission.policy import AdmissionPolicy
from koordinator_adapter.core.admission.resolution import resolve
from koordinator_adapter.core.admission.validation import validate
from koordinator_adapter.core.translation.model import TranslationOptions
from koordinator_adapter.core.translation.reader import complete
from koordinator_adapter.server.cluster import WatchedCluster
from koordinator_adapter.server.gangs import WatchedNames
from koordinator_adapter.server.metrics import AdapterMetrics, AdapterSizes
from koordinator_adapter.server.publisher import Publisher
from koordinator_adapter.server.settings import AdapterSettings

FINDINGS_PATH: Final = "/findings"
UNSERVED_LABEL: Final = "control-plane"
LONGEST_PAUSE: Final = 5.0
"""Seconds between two tries to reach the API server."""

FILL_SECONDS: Final = 60.0
"""The longest that the garbage collector is kept away."""

_LOOK_SECONDS: Final = 0.02
_USUAL: Final = ReflectorOptions(backoff=Backoff(most=LONGEST_PAUSE))
_SELDOM: Final = ReflectorOptions(backoff=Backoff(most=60.0))
"""For what many clusters do not know: it is asked for now and then whether they have learnt it."""

_MISSING: Final = 404


class AdapterServer(Replica):
    """One replica. It can be started once.

    ``registry`` are the vendors whose resources and registers are read. ``filling`` is entered during the initial sync
    of the whole cluster, before any request is answered.
    """

    def __init__(  # noqa: PLR0913 - what it is made of
        self,
        settings: AdapterSettings,
        api: BoundedApi,
        registry: Registry,
        *,
        metrics: AdapterMetrics,
        identity: str,
        filling: Callable[[], AbstractContextManager[object]] = nullcontext,
    ) -> None:
        self._settings = settings
        self._filling = filling
        self._filled = threading.Event()
        self._filler = threading.Thread(target=self._fill, name="filling", daemon=True)
        self._metrics = metrics
        self._registry = complete(registry)
        self._policy = policy_of(settings)
        self._cluster = WatchedCluster(registry, only=settings.devices.vendors, on_dirty=self._look_at)
        self._knows_devices = threading.Event()
        self._publisher = Publisher(
            api, self._cluster, settings.devices, metrics=metrics, active=lambda: self._publishes_now
        )
        self._devices = Reflector(
            api, Selection(paths.DEVICES, "Device"), on_change=self._device_changed, name="devices", **_USUAL
        )
        self._groups, self._quotas = WatchedNames(), WatchedNames(bare=True)
        self._named = _of_named(api, self._groups, self._quotas)
        self._reflectors = (*_reflectors(api, self._cluster), self._devices, *self._named)
        super().__init__(
            settings,
            api,
            identity=identity,
            plain=(Route(FINDINGS_PATH, JsonPage(object, lambda _each_time: self._findings()).answer),),
            webhooks=self._over_tls(AdmissionMetrics(metrics.metrics, DocumentMetrics(metrics.metrics))),
            ready={
                "cluster": self._cluster_check,
                "filling": lambda: "" if self._filled.is_set() else "the cluster is being read",
            },
            metrics=metrics.metrics,
            on_started=self._publisher.look_at_all,
        )
        metrics.read_from(self._sizes)

    @property
    def publishes(self) -> bool:
        """Whether this is the replica that publishes."""
        return self._election.active

    @property
    def lacking(self) -> str:
        """What the cluster lacks, and what is not done for that; empty where it lacks nothing."""
        if self._devices.last_status != _MISSING or self._devices.healthy:
            return ""
        return (
            f"this cluster does not know Koordinator's Device objects (404 at {paths.DEVICES}): no cards "
            "are published, and pods that name cards by id are refused; everything else works. Install Koordinator, or "
            "apply its definition of devices.scheduling.koordinator.sh"
        )

    @property
    def _publishes_now(self) -> bool:
        """Nothing is written before it is known what is there."""
        return self._election.active and self._knows_devices.is_set()

    def start(self) -> None:
        """Starts serving. Raises ``ConfigError`` or ``KubeError`` without a serving certificate."""
        self._endpoints.start()
        self._filler.start()
        if self._settings.devices.enabled:
            self._publisher.start()
            self._election.start()

    def stop(self) -> None:
        """Ends: is not ready, answers no more, finishes its writes, hands the lease back. May be called twice."""
        self._endpoints.leave()
        self._publisher.stop()
        self._election.stop()
        self._endpoints.stop()
        if self._filler.is_alive():
            self._filler.join()
        for reflector in self._reflectors:
            reflector.stop()

    def _fill(self) -> None:
        """Takes in the cluster; where that lasts too long, the rest of it comes as changes do."""
        end = time.monotonic() + FILL_SECONDS
        with self._filling():
            for reflector in self._reflectors:
                reflector.start()
            while self._cluster_check() and time.monotonic() < end and not self._endpoints.leaving.wait(_LOOK_SECONDS):
                pass
        self._filled.set()

    def _device_changed(self, change: ObjectChange) -> None:
        if change.kind == "synced":
            self._knows_devices.set()
            self._publisher.look_at_all()
        else:
            self._cluster.device_changed(change)

    def _look_at(self, node: NodeName) -> None:
        if self._settings.devices.enabled:
            self._publisher.look_at(node)

    def _over_tls(self, metrics: AdmissionMetrics) -> list[Route]:
        known = (
            AdmissionPath(webhooks.TRANSLATE_PATH, self._translate, "pods"),
            AdmissionPath(webhooks.RESOLVE_PATH, resolve, "records"),
            AdmissionPath(webhooks.VALIDATE_PATH, lambda request: validate(request, self._policy), "guard"),
        )
        return admission_routes(known, metrics)

    def _translate(self, request: AdmissionRequest) -> Answer:
        facts = replace(self._cluster.facts(), groups=self._groups.all, quotas=self._quotas.all)
        answer = mutate(request, self._registry, self._policy, facts)
        if isinstance(answer, Allowed):
            self._metrics.admitted("translated" if answer.operations else "untouched")
        else:
            self._metrics.admitted("refused")
        return answer

    def _findings(self) -> dict[str, Any]:
        """Pods without limits, nodes whose cards are not published as they could be (by the replica that does), and
        what the cluster lacks."""
        pods = [{"pod": pod.name, "node": pod.node, "what": why} for pod, why in self._cluster.unlimited()]
        nodes = [{"node": node, "what": what} for node, remarks in self._publisher.remarks.items() for what in remarks]
        kind = "KoordinatorFindings"
        cluster = [{"what": self.lacking}] if self.lacking else []
        return {"apiVersion": API_VERSION, "kind": kind, "unlimitedPods": pods, "nodes": nodes, "cluster": cluster}

    def _sizes(self) -> AdapterSizes:
        nodes, devices, holders = self._cluster.sizes()
        return AdapterSizes(
            active=self.publishes,
            nodes=nodes,
            devices=devices,
            holders=holders,
            unlimited=len(self._cluster.unlimited()),
            remarks=len(self._publisher.remarks),
            waiting=self._publisher.waiting,
            problems=self._cluster.problems,
            lacking=bool(self.lacking),
        )

    def _cluster_check(self) -> str:
        for reflector in self._reflectors:
            if reflector is self._devices and self.lacking:
                continue
            # Without groups and quotas pods get more warnings than necessary, and are admitted all the same.
            if reflector in self._named and reflector.last_error:
                continue
            if not reflector.synced.is_set():
                why = f": {reflector.last_error}" if reflector.last_error else ""
                return f"the API server has not listed all {reflector.name} yet{why}"
            if not reflector.healthy:
                return f"the watch of {reflector.name} is broken: {reflector.last_error}"
        return ""


def policy_of(settings: AdapterSettings) -> AdmissionPolicy:
    """What admission goes by."""
    found = settings.translation
    names = found.schedulers
    fixed = {name for name in ("models", "device_labels", "card_memory") if getattr(found, name) is not None}
    return AdmissionPolicy(
        translation=TranslationOptions(
            schedulers={
                Dialect.HAMI: names.hami,
                Dialect.VOLCANO: names.volcano,
                Dialect.KOORDINATOR: names.koordinator,
            },
            profiles=found.profiles,
            no_core_limit=found.no_core_limit,
            slices_per_card=found.slices_per_card,
            models=found.models or (),
            device_labels=bool(found.device_labels),
            card_memory=None if found.card_memory is None else MiB(found.card_memory),
            runtime_class=found.runtime_class,
        ),
        fixed=frozenset(fixed),
        without_limits=settings.admission.without_limits,
        injects=settings.injection.mode,
        hook_path=settings.injection.hook_path,
        lock_path=settings.injection.lock_path,
    )


def _of_named(api: BoundedApi, groups: WatchedNames, quotas: WatchedNames) -> tuple[Reflector, ...]:
    of_groups, of_quotas = Selection(paths.POD_GROUPS, "PodGroup"), Selection(paths.ELASTIC_QUOTAS, "ElasticQuota")
    return (
        Reflector(api, of_groups, on_change=groups.changed, name="podgroups", **_SELDOM),
        Reflector(api, of_quotas, on_change=quotas.changed, name="elasticquotas", **_SELDOM),
    )


def _reflectors(api: BoundedApi, cluster: WatchedCluster) -> tuple[Reflector, ...]:
    unserved = Selection(paths.NAMESPACES, "Namespace", labels=UNSERVED_LABEL)
    return (
        Reflector(api, Selection(paths.NODES, "Node"), on_change=cluster.node_changed, name="nodes", **_USUAL),
        Reflector(api, Selection(paths.PODS, "Pod"), on_change=cluster.pod_changed, name="pods", **_USUAL),
        Reflector(api, unserved, on_change=cluster.namespace_changed, name="namespaces", **_USUAL),
    )
