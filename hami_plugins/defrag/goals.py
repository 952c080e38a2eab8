"""What room is made for: a pod or a job that waits, or a request that is written on the command line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hami_plugins.engine.intake import PodInfo, Rules, take_in
from hami_plugins.engine.registry import Registry
from hami_plugins.errors import ManifestError, WireError
from hami_plugins.explain.jobs import KINDS, waiting_pods_of
from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.model.pods import Pod
from hami_plugins.wire import objects

WRITING: Final = (
    "write [NAMESPACE/]POD, pod/NAMESPACE/POD, job/NAMESPACE/JOB, or a request such as "
    "nvidia.com/gpu=1,nvidia.com/gpumem=20000"
)

_PLAIN: Final = frozenset({"cpu", "memory", "ephemeral-storage"})


def infos_of(
    words: Sequence[str], snapshot: ClusterSnapshot, registry: Registry, rules: Rules, *, namespace: str
) -> tuple[PodInfo, ...]:
    """The pods that need room, in the order of the words.

    Raises ``ManifestError`` for words that name no waiting pod, or no device of any vendor.
    """
    found: dict[str, PodInfo] = {}
    for number, each in enumerate(words, 1):
        if "=" in each:
            pods: Sequence[Pod] = [_requested(each, number, registry, namespace)]
        else:
            kind, name = _named(each, namespace)
            pods = [_waiting(name, snapshot, each)] if kind == "pod" else waiting_pods_of(snapshot, name, rules, kind)
        for pod in pods:
            found.setdefault(pod.full_name, take_in(pod, registry, rules, written=bool(pod.uid)))
    return tuple(found.values())


def _named(words: str, namespace: str) -> tuple[str, str]:
    """The kind, and the full name."""
    kind, _, rest = words.partition("/")
    known = KINDS.get(kind.lower())
    if known is not None and rest:
        return known, rest if "/" in rest else f"{namespace}/{rest}"
    if not words or words.count("/") > 1 or words.startswith("/") or words.endswith("/"):
        raise ManifestError(f"--for {words}: {WRITING}")
    return "pod", words if "/" in words else f"{namespace}/{words}"


def _waiting(name: str, snapshot: ClusterSnapshot, words: str) -> Pod:
    for pod in snapshot.pending:
        if pod.full_name == name:
            return pod
    node = next((entry.name for entry in snapshot.nodes for each in entry.pods if each.full_name == name), "")
    why = f"the pod runs on node {node} already" if node else f"no pod {name} waits in this cluster; {WRITING}"
    raise ManifestError(f"--for {words}: {why}")


def _requested(words: str, number: int, registry: Registry, namespace: str) -> Pod:
    limits: dict[str, str] = {}
    for part in words.split(","):
        name, _, amount = part.strip().partition("=")
        if name not in registry.resources and name not in _PLAIN:
            raise ManifestError(f"--for {part}: no vendor has a resource {name}; `hami-plugins vendors` lists them")
        limits[name] = amount
    raw = {
        "kind": "Pod",
        "metadata": {"name": f"request-{number}", "namespace": namespace},
        "spec": {"containers": [{"name": "main", "resources": {"limits": limits}}]},
    }
    try:
        return objects.pod(raw)
    except WireError as error:
        raise ManifestError(f"--for {words}: {error}") from error
