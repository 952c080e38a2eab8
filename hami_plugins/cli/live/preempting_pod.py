"""A pod of higher priority for which the allocator evicts another: where sums suffice and no card has room."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import yaml

from hami_plugins import examples
from hami_plugins.cli.live.cluster import NODES, DemoCluster
from hami_plugins.cli.live.containers import visible
from hami_plugins.cli.live.printer import DemoPrinter
from hami_plugins.kube import paths
from hami_plugins.model.units import MiB
from hami_plugins.plan.slices import memory_words
from hami_plugins.sandbox.kube_scheduler import EmulatedKubeScheduler
from hami_plugins.vendors import volcano as vendor
from hami_plugins.wire.fields import Json

BACKGROUND: Final = "background"
OUTAGE: Final = "outage"
_CLASSES: Final = "/apis/scheduling.k8s.io/v1/priorityclasses"


class PreemptingPod:
    """Runs two pods that fill the last cards, and then one that is worth more. They are kube-scheduler's."""

    def __init__(self, cluster: DemoCluster, printer: DemoPrinter) -> None:
        self._cluster = cluster
        self._printer = printer
        self._priorities: dict[str, int] = {}

    def preempt(self) -> None:
        """All of it, with the events of both pods."""
        cluster, say, more = self._cluster, self._printer.say, self._printer.more
        with EmulatedKubeScheduler.asking(cluster.allocator.scheduler_url(), cluster.api) as scheduler:
            running = self._submitted(BACKGROUND)
            for each in running:
                cluster.until(partial(self._runs, scheduler, each), f"{_words(each)} runs")
            (high,) = self._submitted(OUTAGE)
            say(
                f"kube-scheduler asks the same allocator: {' and '.join(map(_words, running))} run on the last cards; "
                f"no card has room for {_words(high)}, so that the allocator evicts a pod"
            )
            cluster.until(partial(self._runs, scheduler, high), f"{_words(high)} runs")
        cluster.until(lambda: len(self._left(running)) < len(running), f"a pod has ended for {_words(high)}")
        stays = self._left(running)
        (victim,) = [pod for pod in running if pod not in stays]
        cluster.until(lambda: all(map(self._told, (victim, high))), "both pods have events")
        for pod in (victim, high):
            more(f"event of pod {_full_name(pod)}: {self._told(pod)}", "warn")
        more(f"{_name(victim)} has ended, {_name(high)} runs, and {', '.join(map(_name, stays))} runs on", "good")

    def _left(self, pods: Sequence[Json]) -> list[Json]:
        """Those of the pods that have not ended."""
        there = {pod["metadata"]["uid"] for pod in self._cluster.pods()}
        return [pod for pod in pods if pod["metadata"]["uid"] in there]

    def _submitted(self, file: str) -> list[dict[str, Any]]:
        """The pods of a file, created. Their priorities are those of their classes, as admission has it."""
        made: list[dict[str, Any]] = []
        for each in yaml.safe_load_all(examples.live_text(file)):
            if each["kind"] == "PriorityClass":
                self._cluster.api.create(_CLASSES, each)
                self._priorities[each["metadata"]["name"]] = each["value"]
            else:
                spec = each["spec"]
                spec["priority"] = self._priorities.get(spec.get("priorityClassName", ""), 0)
                made.append(dict(self._cluster.api.create(paths.pods(each["metadata"]["namespace"]), each)))
        return made

    def _runs(self, scheduler: EmulatedKubeScheduler, pod: Json) -> bool:
        """Whether the pod's container runs and its agent has reported that; without a node the pod is tried again."""
        (current,) = [each for each in self._cluster.pods() if each["metadata"]["uid"] == pod["metadata"]["uid"]]
        if not current["spec"].get("nodeName"):
            scheduler.schedule(current, NODES)
            return False
        reported = current["metadata"].get("annotations", {}).get(vendor.PHASE_KEY) == "success"
        return reported and bool(visible(self._cluster.seen(current)))

    def _told(self, pod: Json) -> str:
        """The event of the preemption about a pod; empty before there is one."""
        events = self._cluster.server.objects("events")
        return next(
            (
                str(each["message"])
                for each in events
                if each["involvedObject"].get("uid") == pod["metadata"]["uid"] and each["reason"].startswith("Preempt")
            ),
            "",
        )


def _words(pod: Json) -> str:
    limits = pod["spec"]["containers"][0]["resources"]["limits"]
    memory = memory_words(MiB(int(limits[vendor.RESOURCES.memory])))
    return f"{_name(pod)} ({memory} of a card, priority {pod['spec']['priority']:,})"


def _full_name(pod: Json) -> str:
    return f"{pod['metadata']['namespace']}/{_name(pod)}"


def _name(pod: Json) -> str:
    return str(pod["metadata"]["name"])
