"""Pods that ask for devices which the scheduler that they name does not look at."""

from __future__ import annotations

from hami_plugins.engine.intake import PodInfo, Rules
from hami_plugins.engine.koordinator import SCHEDULER_LABEL, read_by_its_scheduler
from hami_plugins.engine.mutate import DEFAULT_SCHEDULER, OTHER_SCHEDULER
from hami_plugins.engine.registry import Registry
from hami_plugins.inputs.workloads.pods import VOLCANO
from hami_plugins.model.dialect import Dialect
from hami_plugins.model.pods import Pod
from hami_plugins.model.vendor import VendorSpec


def left_alone(pod: Pod, registry: Registry, rules: Rules) -> str:
    """Why a pod's scheduler does not look at the devices that it asks for, and what to write; empty where it does."""
    asked = {spec.dialect: spec for spec in reversed(_asked(pod, registry))}
    named = pod.scheduler or DEFAULT_SCHEDULER
    if pod.scheduler == VOLCANO:
        if Dialect.KOORDINATOR in asked:
            return _for_koordinator(named)
        hami = asked.get(Dialect.HAMI)
        if hami is None or Dialect.VOLCANO in asked or VOLCANO in hami.schedulers:
            return ""
        return f"left alone: {named} does not look at {hami.resources.count}; {_for_hami(rules.webhook.scheduler)}"
    mine = {"", DEFAULT_SCHEDULER, rules.webhook.scheduler}
    if Dialect.KOORDINATOR in asked and (Dialect.VOLCANO in asked or _called(pod) in mine):
        return _for_koordinator(named)
    if Dialect.VOLCANO in asked:
        return f"left alone: {named} does not look at Volcano's devices; set schedulerName: {VOLCANO}"
    return ""


def taken_for_hamis(intake: PodInfo, registry: Registry) -> str:
    """What a plan takes for allocated of a scheduler whose name it does not know; empty where it knows the name."""
    vendors = {request.vendor for container in intake.demand.devices.containers for request in container.requests}
    if intake.dialect is not Dialect.HAMI or intake.admission.message != OTHER_SCHEDULER:
        return ""
    if all(intake.pod.scheduler in registry[vendor].schedulers for vendor in vendors):
        return ""
    return (
        f"HAMi's webhook leaves schedulerName {intake.pod.scheduler} alone; it is planned as if that were HAMi's "
        "scheduler (the settings name it, scheduler: {name: ...})"
    )


def _asked(pod: Pod, registry: Registry) -> list[VendorSpec]:
    """The vendors whose devices a pod requests, in the registry's order."""
    asked = {spec.name for each in read_by_its_scheduler(pod).containers for spec in registry.asked_by(each)}
    return [spec for spec in registry if spec.name in asked] if asked else []


def _called(pod: Pod) -> str:
    return pod.labels.get(SCHEDULER_LABEL) or pod.scheduler


def _for_koordinator(named: str) -> str:
    return f"left alone: {named} does not look at Koordinator's devices; set schedulerName: koord-scheduler"


def _for_hami(scheduler: str) -> str:
    return f"drop schedulerName, or write {scheduler}" if scheduler else "drop schedulerName"
