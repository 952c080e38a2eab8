"""ResourceQuota as the API server holds every new pod to it, whichever scheduler will place the pod.

It counts the requests of all pods of the namespace that have not finished, placed or not. (What HAMi's webhook makes of
``limits.<resource>`` of devices is in ``engine.quota``; the API server does not look at those.)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from hami_plugins.model.cluster import ClusterSnapshot, NamespaceQuota
from hami_plugins.model.pods import Container, Pod
from hami_plugins.model.quantity import NANO
from hami_plugins.model.requests import ContainerKind
from hami_plugins.wire import quantity

ORDINARY: Final = ("cpu", "memory", "ephemeral-storage")
_MUST_BE_NAMED: Final = ("cpu", "memory")


class ResourceQuotaExcess(NamedTuple):
    """A limit that a pod would break: the quota's key, what the pod counts for, what is taken, and the limit."""

    key: str
    asked: int
    used: int
    hard: int

    def __str__(self) -> str:
        asked, used, hard = (_shown(self.key, nano) for nano in (self.asked, self.used, self.hard))
        return f"quota: {self.key}: asks {asked}, {used} of {hard} are taken"


def counted(pod: Pod) -> dict[str, int]:
    """What a pod counts for, under the keys that a quota can have (nano units)."""
    counts = _requested(pod.constraints.requests)
    for resource in ORDINARY:
        limit = _limit(pod.containers, resource)
        if limit:
            counts[f"limits.{resource}"] = limit
    return counts


def taken(snapshot: ClusterSnapshot, namespace: str) -> dict[str, int]:
    """What the pods of a namespace count for. Limits of placed pods are those that the quota itself reports."""
    quota = snapshot.quotas.get(namespace)
    total = {key: amount for key, amount in (quota.used if quota else {}).items() if key.startswith("limits.")}
    for entry in snapshot.nodes:
        for record in entry.pods:
            if record.namespace == namespace:
                add(total, _requested(record.requests))
    for pod in snapshot.pending:
        if pod.namespace == namespace:
            add(total, _requested(pod.constraints.requests))
    return total


def add(total: dict[str, int], counts: Mapping[str, int]) -> None:
    """Add one pod to what is taken."""
    for key, amount in counts.items():
        total[key] = total.get(key, 0) + amount


def excesses(
    quota: NamespaceQuota, used: Mapping[str, int], counts: Mapping[str, int]
) -> tuple[ResourceQuotaExcess, ...]:
    """The limits that a pod would break, by key."""
    return tuple(
        ResourceQuotaExcess(key, counts[key], used.get(key, 0), quota.hard[key])
        for key in sorted(quota.hard.keys() & counts.keys())
        if used.get(key, 0) + counts[key] > quota.hard[key]
    )


def unnamed(quota: NamespaceQuota, pod: Pod) -> tuple[str, ...]:
    """The amounts of CPU and memory that the quota wants every container to name, and that one does not."""
    missing = set[str]()
    for resource in _MUST_BE_NAMED:
        for container in pod.containers:
            if (resource in quota.hard or f"requests.{resource}" in quota.hard) and resource not in container.requests:
                missing.add(f"requests.{resource}")
            if f"limits.{resource}" in quota.hard and resource not in container.limits:
                missing.add(f"limits.{resource}")
    return tuple(sorted(missing))


def words(pod: Pod, broken: Iterable[ResourceQuotaExcess]) -> str:
    """The API server's answer to the request that would create the pod."""
    found = list(broken)
    asked, used, hard = (
        ",".join(f"{each.key}={_text(each.key, amount)}" for each, amount in zip(found, amounts, strict=True))
        for amounts in ([e.asked for e in found], [e.used for e in found], [e.hard for e in found])
    )
    return f'pods "{pod.name}" is forbidden: exceeded quota, requested: {asked}, used: {used}, limited: {hard}'


def _shown(key: str, nano: int) -> str:
    """An amount for people: devices and their MiB are numbers, never ``8k``."""
    return str(nano // NANO) if "/" in key and nano % NANO == 0 else _text(key, nano)


def _text(key: str, nano: int) -> str:
    return quantity.canonical(nano, binary=key.rpartition(".")[2] in ORDINARY and "cpu" not in key)


def _requested(requests: Iterable[tuple[str, int]]) -> dict[str, int]:
    counts = {"pods": NANO, "count/pods": NANO}
    for resource, amount in requests:
        counts[f"requests.{resource}"] = amount
        if resource in ORDINARY or resource.startswith("hugepages-"):
            counts[resource] = amount
    return counts


def _limit(containers: Iterable[Container], resource: str) -> int:
    together = most = 0
    for container in containers:
        amount = container.limits.get(resource)
        if amount is None:
            continue
        if container.kind is ContainerKind.INIT:
            most = max(most, amount.nano)
        else:
            together += amount.nano
    return max(together, most)
