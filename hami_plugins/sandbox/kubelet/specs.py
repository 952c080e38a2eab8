"""What a kubelet reads in a pod object: its containers in the order in which they are treated, and what they ask."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from hami_plugins.wire import quantity
from hami_plugins.wire.fields import Json


class Role(StrEnum):
    """When a container runs: before the others, concurrently with them from early on, or as the pod's work."""

    INIT = "init"
    SIDECAR = "sidecar"
    APP = "app"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerSpec:
    """One container of a pod. ``limits`` has the amounts of extended resources alone, as whole numbers."""

    name: str
    role: Role
    limits: Mapping[str, int]
    raw: Json


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSpec:
    """What stays the same while a pod lives."""

    uid: str
    namespace: str
    name: str
    containers: tuple[ContainerSpec, ...]
    restart_policy: str
    grace: float
    raw: Json

    @property
    def full_name(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"

    @property
    def requests(self) -> Mapping[str, int]:
        """What the pod as a whole asks of each extended resource: the larger of its start and its run."""
        running: dict[str, int] = {}
        peak: dict[str, int] = {}
        for container in self.containers:
            for name, amount in container.limits.items():
                if container.role is Role.INIT:
                    peak[name] = max(peak.get(name, 0), running.get(name, 0) + amount)
                else:
                    running[name] = running.get(name, 0) + amount
        return {name: max(peak.get(name, 0), running.get(name, 0)) for name in {*peak, *running}}


def is_extended(resource: str) -> bool:
    """Whether a resource is one that nodes may be given: it has a domain, and not Kubernetes' own."""
    return "/" in resource and "kubernetes.io/" not in resource and not resource.startswith("requests.")


def read(raw: Json) -> PodSpec:
    """A pod object of the API server; raises ``WireError`` for an amount that is none."""
    metadata, spec = raw["metadata"], raw.get("spec") or {}
    grace = spec.get("terminationGracePeriodSeconds")
    return PodSpec(
        uid=metadata["uid"],
        namespace=metadata.get("namespace", "default"),
        name=metadata["name"],
        containers=tuple(_containers(spec)),
        restart_policy=spec.get("restartPolicy") or "Always",
        grace=float(30 if grace is None else grace),
        raw=raw,
    )


def phase(raw: Json) -> str:
    """The pod's phase; a pod without a status is pending."""
    return str((raw.get("status") or {}).get("phase") or "Pending")


def is_over(raw: Json) -> bool:
    """Whether the pod has ended for good."""
    return phase(raw) in ("Succeeded", "Failed")


def _containers(spec: Mapping[str, Any]) -> Iterator[ContainerSpec]:
    for container in spec.get("initContainers") or ():
        role = Role.SIDECAR if container.get("restartPolicy") == "Always" else Role.INIT
        yield _container(container, role)
    for container in spec.get("containers") or ():
        yield _container(container, Role.APP)


def _container(raw: Json, role: Role) -> ContainerSpec:
    limits = (raw.get("resources") or {}).get("limits") or {}
    asked = {name: amount for name, amount in sorted(limits.items()) if is_extended(name)}
    amounts = quantity.amounts(asked, key=f"container {raw['name']}: limits")
    return ContainerSpec(
        name=raw["name"], role=role, limits={name: amount.ceiling for name, amount in amounts.items()}, raw=raw
    )
