"""What a kubelet writes into a pod's status, from what has become of its containers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from hami_plugins.sandbox.kubelet.runtime import RunningContainer
from hami_plugins.sandbox.kubelet.specs import ContainerSpec, PodSpec, Role


@dataclass(frozen=True, slots=True)
class Waiting:
    """Why a container is not running now."""

    reason: str
    message: str = ""


@dataclass(frozen=True, slots=True)
class Fate:
    """One container: every start of it, oldest first, and what it waits for if it does."""

    spec: ContainerSpec
    history: Sequence[RunningContainer] = ()
    waiting: Waiting | None = None

    @property
    def newest(self) -> RunningContainer | None:
        """The latest start."""
        return self.history[-1] if self.history else None

    @property
    def done(self) -> bool:
        """Whether it ended well."""
        return self.newest is not None and not self.newest.running and self.newest.exit_code == 0

    @property
    def running(self) -> bool:
        """Whether it runs."""
        return self.newest is not None and self.newest.running


def stamp(seconds: float) -> str:
    """A moment as Kubernetes writes it."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def restarts(policy: str, exit_code: int) -> bool:
    """Whether an app container that ended is started again."""
    return policy == "Always" or (policy == "OnFailure" and exit_code != 0)


def phase(pod: PodSpec, fates: Sequence[Fate]) -> str:
    """The pod's phase, as the kubelet derives it."""
    inits = [fate for fate in fates if fate.spec.role is Role.INIT]
    apps = [fate for fate in fates if fate.spec.role is Role.APP]
    if any(_failed_for_good(pod, fate) for fate in inits):
        return "Failed"
    if not all(fate.done for fate in inits) or any(fate.newest is None for fate in apps):
        return "Pending"
    codes = [fate.newest.exit_code for fate in apps if fate.newest is not None]
    if any(fate.running for fate in apps) or any(restarts(pod.restart_policy, code) for code in codes):
        return "Running"
    return "Failed" if any(codes) else "Succeeded"


def status(pod: PodSpec, fates: Sequence[Fate], *, started: float, host: str) -> dict[str, Any]:
    """The status object of a pod that was taken in at ``started`` (seconds since 1970)."""
    now_phase = phase(pod, fates)
    initialized = all(_initialized(fate) for fate in fates if fate.spec.role is not Role.APP)
    ready = now_phase == "Running" and all(fate.running for fate in fates if fate.spec.role is not Role.INIT)
    found: dict[str, Any] = {
        "phase": now_phase,
        "startTime": stamp(started),
        "hostIP": host,
        "conditions": [
            _condition("PodReadyToStartContainers", True),
            _condition("Initialized", initialized),
            _condition("Ready", ready),
            _condition("ContainersReady", ready),
            _condition("PodScheduled", True),
        ],
        "containerStatuses": _statuses((fate for fate in fates if fate.spec.role is Role.APP), initialized=initialized),
    }
    if inits := [fate for fate in fates if fate.spec.role is not Role.APP]:
        found["initContainerStatuses"] = _statuses(inits, initialized=initialized)
    return found


def rejection(reason: str, message: str, *, started: float) -> dict[str, Any]:
    """The status of a pod that was turned away."""
    return {
        "phase": "Failed",
        "reason": reason,
        "message": f"Pod was rejected: {message}",
        "startTime": stamp(started),
    }


def _failed_for_good(pod: PodSpec, fate: Fate) -> bool:
    ended = fate.newest is not None and not fate.newest.running
    return ended and not fate.done and pod.restart_policy == "Never"


def _initialized(fate: Fate) -> bool:
    return fate.running if fate.spec.role is Role.SIDECAR else fate.done


def _condition(kind: str, holds: bool) -> dict[str, Any]:
    return {"type": kind, "status": "True" if holds else "False"}


def _statuses(fates: Iterable[Fate], *, initialized: bool) -> list[dict[str, Any]]:
    return [_container(fate, initialized=initialized) for fate in fates]


def _container(fate: Fate, *, initialized: bool) -> dict[str, Any]:
    newest = fate.newest
    found: dict[str, Any] = {
        "name": fate.spec.name,
        "image": str(fate.spec.raw.get("image") or ""),
        "imageID": "",
        "ready": fate.done if fate.spec.role is Role.INIT else fate.running,
        "started": fate.running,
        "restartCount": 0 if newest is None else newest.attempt,
        "state": _state(fate, initialized=initialized),
        "lastState": {},
    }
    if newest is not None:
        found["containerID"] = f"containerd://{newest.id}"
        before = newest if "waiting" in found["state"] else next(iter(fate.history[-2:-1]), None)
        if before is not None:
            found["lastState"] = {"terminated": _terminated(before)}
    return found


def _state(fate: Fate, *, initialized: bool) -> Mapping[str, Any]:
    newest = fate.newest
    if newest is not None and newest.running:
        return {"running": {"startedAt": stamp(newest.started)}}
    if fate.waiting is not None:
        said = {"reason": fate.waiting.reason, "message": fate.waiting.message}
        return {"waiting": {key: text for key, text in said.items() if text}}
    if newest is not None:
        return {"terminated": _terminated(newest)}
    return {"waiting": {"reason": "ContainerCreating" if initialized else "PodInitializing"}}


def _terminated(container: RunningContainer) -> dict[str, Any]:
    return {
        "exitCode": container.exit_code,
        "reason": "Completed" if container.exit_code == 0 else "Error",
        "startedAt": stamp(container.started),
        "finishedAt": stamp(container.ended or container.started),
        "containerID": f"containerd://{container.id}",
    }
