"""Spark applications (``sparkoperator.k8s.io/v1beta2``): a driver and executors, described in Spark's own words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from hami_plugins.inputs.manifests.fields import Field
from hami_plugins.inputs.workloads import pods
from hami_plugins.inputs.workloads.gangs import DEFAULT_QUEUE, Gang
from hami_plugins.inputs.workloads.pods import MAX_PODS, VOLCANO, PodTemplate
from hami_plugins.inputs.workloads.runs import Expand, Run, SubmittedObject, numbered, together

_MEMORY: Final = re.compile(r"(\d{1,12})([kmgt]?)i?b?", re.IGNORECASE)
_UNITS: Final = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
_LEAST_OVERHEAD: Final = 384 * 2**20
_CONTAINERS: Final = {"driver": "spark-kubernetes-driver", "executor": "spark-kubernetes-executor"}
_COPIED: Final = ("affinity", "tolerations", "priorityClassName", "hostNetwork", "initContainers")


def _application(it: SubmittedObject) -> Iterator[Run]:
    yield from _of_spec(it, it.spec)


def _scheduled(it: SubmittedObject) -> Iterator[Run]:
    yield from _of_spec(it, it.spec.needed("template"))


def _of_spec(it: SubmittedObject, spec: Field) -> Iterator[Run]:
    """The driver (in mode ``client`` it is not a pod of the application), and the executors that run at first.

    With ``batchScheduler: volcano`` the operator makes a PodGroup ``spark-NAME-pg`` of one member, so that the driver
    starts first; it asks the queue for what all pods need (``internal/scheduler/volcano/scheduler.go``).
    """
    runs = []
    if spec.text("mode", "cluster") != "client":
        runs.append(numbered(it, _template(it, spec, "driver"), "driver", 1))
    executors, note = _executors(spec)
    runs.append(numbered(it, _template(it, spec, "executor"), "exec", executors))
    options = spec.inner("batchSchedulerOptions")
    gang = None
    if spec.text("batchScheduler") == VOLCANO:
        queue = options.text("queue") or DEFAULT_QUEUE
        gang = Gang(group=f"{it.namespace}/spark-{it.name}-pg", min_member=1, queue=queue)
    notes = (note,) if note else ()
    yield from together(runs, gang, *notes, priority_class=options.text("priorityClassName"))


def _executors(spec: Field) -> tuple[int, str]:
    """How many executors start, and what may change that number (``dynamicAllocation``)."""
    wanted = spec.inner("executor").count("instances", 1, most=MAX_PODS)
    dynamic = spec.inner("dynamicAllocation")
    if not dynamic.flag("enabled"):
        return wanted, ""
    fewest = dynamic.count("minExecutors", 0, most=MAX_PODS)
    first = max(dynamic.count("initialExecutors", 0, most=MAX_PODS), fewest, wanted)
    most = f"up to {dynamic.count('maxExecutors', 0):,}" if dynamic.has("maxExecutors") else "any number of"
    return first, f"Spark runs {most} executors as it needs them (dynamicAllocation); planned with {first:,}"


def _template(it: SubmittedObject, spec: Field, role: str) -> PodTemplate:
    """The pod of a role, as the operator's webhook and Spark make it."""
    part = spec.needed(role)
    base = part.inner("template")
    inside = base.inner("spec")
    metadata = base.inner("metadata")
    name = _CONTAINERS[role]
    listed = inside.items("containers")
    own = next((at for at, each in enumerate(listed) if each.text("name") == name), 0)
    main = {**(listed[own].members if listed else {}), "name": name}
    main["resources"] = _resources(spec, part, listed[own].inner("resources") if listed else None)
    others = [each.members for at, each in enumerate(listed) if at != own]
    sidecars = [each.members for each in part.items("sidecars")]
    copied = {key: part.members[key] for key in _COPIED if part.has(key)}
    selector = {**inside.texts("nodeSelector"), **spec.texts("nodeSelector"), **part.texts("nodeSelector")}
    scheduler = VOLCANO if spec.text("batchScheduler") == VOLCANO else part.text("schedulerName")
    made: dict[str, object] = {**inside.members, **copied, "containers": [main, *others, *sidecars]}
    if selector:
        made["nodeSelector"] = selector
    if scheduler:
        made["schedulerName"] = scheduler
    texts = {key: {**metadata.texts(key), **part.texts(key)} for key in ("labels", "annotations")}
    return pods.template(Field(part.document, part.path, {"metadata": texts, "spec": made}), it.namespace)


def _resources(spec: Field, part: Field, given: Field | None) -> dict[str, object]:
    """CPU, memory with its overhead, the devices of ``gpu`` (``name``, ``quantity``), and what a template has."""
    limits = dict(given.inner("limits").members) if given is not None else {}
    requests = dict(given.inner("requests").members) if given is not None else {}
    requests["cpu"] = part.text("coreRequest") or part.count("cores", 1)
    if part.has("coreLimit"):
        limits["cpu"] = part.text("coreLimit")
    memory = _bytes(part, "memory", "1g")
    overhead = _overhead(spec, part, memory)
    requests["memory"] = memory + overhead
    limits["memory"] = memory + overhead
    if part.has("gpu"):
        gpu = part.inner("gpu")
        name, quantity = gpu.text("name"), gpu.count("quantity", 0)
        if not name:
            raise gpu.fault("name of the resource is missing, such as nvidia.com/gpu", "name")
        if quantity < 1:
            raise gpu.fault("has to be at least 1; the operator leaves out anything else", "quantity")
        limits[name] = quantity
    return {"limits": limits, "requests": requests}


def _overhead(spec: Field, part: Field, memory: int) -> int:
    """What Spark adds to the memory: ``memoryOverhead``, else a tenth (0.4 for Python and R), at least 384 MiB."""
    if part.has("memoryOverhead"):
        return _bytes(part, "memoryOverhead", "0")
    default = "0.4" if spec.text("type") in {"Python", "R"} else "0.1"
    text = spec.text("memoryOverheadFactor") or default
    try:
        factor = float(text)
    except ValueError:
        factor = -1.0
    if not 0 <= factor <= 100:
        raise spec.fault(f"{text[:40]!r} has to be a number such as 0.1", "memoryOverheadFactor")
    return max(int(memory * factor), _LEAST_OVERHEAD)


def _bytes(part: Field, key: str, default: str) -> int:
    """An amount as Java writes it: ``512m`` is in MiB."""
    text = part.text(key, default)
    match = _MEMORY.fullmatch(text)
    if match is None:
        raise part.fault(f"{text[:40]!r} has to be an amount of memory such as 512m or 4g", key)
    return int(match[1]) * _UNITS[match[2].lower()]


KINDS: Final[Mapping[tuple[str, str], Expand]] = {
    ("sparkoperator.k8s.io", "SparkApplication"): _application,
    ("sparkoperator.k8s.io", "ScheduledSparkApplication"): _scheduled,
}
