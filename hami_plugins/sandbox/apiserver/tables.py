"""Tables, as ``kubectl get`` asks for them: columns and one row for each object (``meta.k8s.io/v1 Table``).

Columns are those of Kubernetes 1.34 (``pkg/printers/internalversion/printers.go``) and of Volcano's definitions for the
kinds that people look at here; any other kind has its name and age, as a custom resource without columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

from hami_plugins.sandbox.apiserver.kinds import ResourceKind
from hami_plugins.wire.fields import Json


class TableColumn(NamedTuple):
    """A column: its name, what it shows of an object, and whether only ``-o wide`` shows it."""

    name: str
    cell: Callable[[Json, datetime], object]
    wide: bool = False


def wanted(accept: str) -> bool:
    """Whether the answer is to be a table: the first media type that a client accepts says so."""
    parts = [part.strip() for part in accept.partition(",")[0].split(";")]
    return parts[0] == "application/json" and {"as=Table", "v=v1", "g=meta.k8s.io"} <= set(parts)


def table(
    kind: ResourceKind, objects: Iterable[Json], metadata: Json, *, include: str, now: datetime
) -> dict[str, Any]:
    """The table of some objects, each with its kind; ``include`` is the query parameter ``includeObject``."""
    columns = _COLUMNS.get(kind.storage, _ANY)
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": dict(metadata),
        "columnDefinitions": [_definition(column) for column in columns],
        "rows": [_row(columns, each, include=include, now=now) for each in objects],
    }


def _definition(column: TableColumn) -> dict[str, object]:
    form = "name" if column.name == "Name" else ""
    return {"name": column.name, "type": "string", "format": form, "description": "", "priority": int(column.wide)}


def _row(columns: Sequence[TableColumn], obj: Json, *, include: str, now: datetime) -> dict[str, Any]:
    row: dict[str, Any] = {"cells": [column.cell(obj, now) for column in columns]}
    if include == "Object":
        row["object"] = dict(obj)
    elif include != "None":
        row["object"] = {
            "kind": "PartialObjectMetadata",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": dict(obj["metadata"]),
        }
    return row


def _at(*path: str, default: str = "") -> Callable[[Json, datetime], object]:
    """Shows a member; what is not there is shown as ``default``."""

    def cell(obj: Json, _: datetime) -> object:
        found: Any = obj
        for name in path:
            found = found.get(name) if isinstance(found, Mapping) else None
        return default if found is None else found

    return cell


def _age_of(*path: str) -> Callable[[Json, datetime], str]:
    """Shows how long ago a member's time was."""
    member = _at(*path)

    def cell(obj: Json, now: datetime) -> str:
        text = str(member(obj, now))
        if not text:
            return "<unknown>"
        return duration((now - datetime.fromisoformat(text)).total_seconds())

    return cell


def duration(seconds: float) -> str:
    """``HumanDuration`` of Kubernetes (``apimachinery/pkg/util/duration``): 90s, 5m30s, 3h, 2d4h."""
    whole = max(0, int(seconds))
    for most, (size, unit), (small, small_unit) in _SPANS:
        if whole < most:
            rest = whole % size // small
            return f"{whole // size}{unit}" + (f"{rest}{small_unit}" if rest and small_unit else "")
    return f"{whole // _YEAR}y"


_HOUR: Final = 3600
_DAY: Final = 24 * _HOUR
_YEAR: Final = 365 * _DAY
_SPANS: Final = (
    (120, (1, "s"), (1, "")),
    (600, (60, "m"), (1, "s")),
    (3 * _HOUR, (60, "m"), (1, "")),
    (8 * _HOUR, (_HOUR, "h"), (60, "m")),
    (2 * _DAY, (_HOUR, "h"), (1, "")),
    (8 * _DAY, (_DAY, "d"), (_HOUR, "h")),
    (2 * _YEAR, (_DAY, "d"), (1, "")),
)
"""Below which seconds which unit is shown, and the smaller unit behind it, if any."""


def _pod_ready(pod: Json, _: datetime) -> str:
    states = _containers(pod)
    return f"{sum(bool(each.get('ready')) for each in states)}/{len(pod['spec']['containers'])}"


def _pod_status(pod: Json, _: datetime) -> str:
    """The word of ``kubectl get pods``: why the first container waits or has ended, else the phase."""
    status = pod.get("status") or {}
    if pod["metadata"].get("deletionTimestamp"):
        return "Terminating"
    for prefix, states in (("Init:", status.get("initContainerStatuses") or ()), ("", _containers(pod))):
        for each in states:
            state = each.get("state") or {}
            waiting, ended = state.get("waiting") or {}, state.get("terminated") or {}
            if waiting.get("reason") and not (prefix and waiting["reason"] == "PodInitializing"):
                return f"{prefix}{waiting['reason']}"
            if ended.get("reason") and not (prefix and ended.get("exitCode") == 0):
                return f"{prefix}{ended['reason']}"
    if any(each.get("reason") == "SchedulingGated" for each in status.get("conditions") or ()):
        return "SchedulingGated"
    return str(status.get("reason") or status.get("phase") or "Unknown")


def _pod_restarts(pod: Json, _: datetime) -> str:
    return str(sum(int(each.get("restartCount", 0)) for each in _containers(pod)))


def _containers(pod: Json) -> Sequence[Json]:
    return (pod.get("status") or {}).get("containerStatuses") or ()


def _node_status(node: Json, _: datetime) -> str:
    conditions = (node.get("status") or {}).get("conditions") or ()
    ready = next((each["status"] for each in conditions if each.get("type") == "Ready"), "Unknown")
    words = ["Ready" if ready == "True" else "NotReady" if ready == "False" else "Unknown"]
    return ",".join([*words, *(["SchedulingDisabled"] if (node.get("spec") or {}).get("unschedulable") else [])])


def _node_roles(node: Json, _: datetime) -> str:
    prefix = "node-role.kubernetes.io/"
    labels = node["metadata"].get("labels") or {}
    return ",".join(sorted(name.removeprefix(prefix) for name in labels if name.startswith(prefix))) or "<none>"


def _event_object(event: Json, _: datetime) -> str:
    about = event.get("involvedObject") or event.get("regarding") or {}
    return f"{str(about.get('kind', '')).lower()}/{about.get('name', '')}"


def _event_seen(event: Json, now: datetime) -> str:
    for name in ("lastTimestamp", "deprecatedLastTimestamp", "eventTime", "firstTimestamp"):
        if event.get(name):
            return _age_of(name)(event, now)
    return "<unknown>"


def _event_message(event: Json, _: datetime) -> str:
    return str(event.get("message") or event.get("note") or "").strip()


_NAME: Final = TableColumn("Name", _at("metadata", "name"))
_AGE: Final = TableColumn("Age", _age_of("metadata", "creationTimestamp"))
_ANY: Final = (_NAME, _AGE)
_COLUMNS: Final[Mapping[tuple[str, str], tuple[TableColumn, ...]]] = {
    ("", "pods"): (
        _NAME,
        TableColumn("Ready", _pod_ready),
        TableColumn("Status", _pod_status),
        TableColumn("Restarts", _pod_restarts),
        _AGE,
        TableColumn("IP", _at("status", "podIP", default="<none>"), wide=True),
        TableColumn("Node", _at("spec", "nodeName", default="<none>"), wide=True),
        TableColumn("Nominated Node", _at("status", "nominatedNodeName", default="<none>"), wide=True),
    ),
    ("", "nodes"): (
        _NAME,
        TableColumn("Status", _node_status),
        TableColumn("Roles", _node_roles),
        _AGE,
        TableColumn("Version", _at("status", "nodeInfo", "kubeletVersion")),
        TableColumn("OS-Image", _at("status", "nodeInfo", "osImage"), wide=True),
        TableColumn("Container-Runtime", _at("status", "nodeInfo", "containerRuntimeVersion"), wide=True),
    ),
    ("", "namespaces"): (_NAME, TableColumn("Status", _at("status", "phase")), _AGE),
    ("", "events"): (
        TableColumn("Last Seen", _event_seen),
        TableColumn("Type", _at("type")),
        TableColumn("Reason", _at("reason")),
        TableColumn("Object", _event_object),
        TableColumn("Message", _event_message),
        TableColumn("Name", _at("metadata", "name"), wide=True),
    ),
    ("batch.volcano.sh", "jobs"): (
        _NAME,
        TableColumn("Status", _at("status", "state", "phase")),
        TableColumn("minAvailable", _at("status", "minAvailable")),
        TableColumn("RUNNINGS", _at("status", "running")),
        _AGE,
        TableColumn("QUEUE", _at("spec", "queue"), wide=True),
    ),
    ("scheduling.volcano.sh", "podgroups"): (
        _NAME,
        TableColumn("STATUS", _at("status", "phase")),
        TableColumn("minMember", _at("spec", "minMember")),
        TableColumn("RUNNINGS", _at("status", "running")),
        _AGE,
        TableColumn("QUEUE", _at("spec", "queue"), wide=True),
    ),
}
