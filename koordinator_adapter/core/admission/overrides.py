"""The known ways in which a manifest overrides the limits that HAMi-core enforces in its containers.

A container's own variable wins over the one that the node sets. Only the manifest is checked: the image's own
variables, and what a program does while it runs (it can unset a variable, or call the driver past the library), are
not. HAMi-core is not a security boundary.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from hami_plugins.engine.koordinator import FULL
from hami_plugins.model.pods import Pod
from hami_plugins.model.requests import DeviceRequest
from hami_plugins.wire.fields import Json
from hami_plugins.wire.hami_core import CONTROL_ENV, CORE_POLICY_ENV, VISIBLE_ENV
from koordinator_adapter.core import injection
from koordinator_adapter.core.translation.model import at, container_path

LIMITS: Final = ("CUDA_DEVICE_MEMORY_", "CUDA_DEVICE_SM_")
"""Prefixes of the variables from which HAMi-core takes limits and the file in which it counts. CUDA itself reads other
variables of a like name, such as ``CUDA_DEVICE_ORDER``."""

PRELOAD_ENV: Final = "LD_PRELOAD"


class _Override(NamedTuple):
    """The effect of a variable, the alternative, and the values (in lower case) that override nothing."""

    effect: str
    remedy: str = "Remove it from the container"
    harmless: frozenset[str] = frozenset()


_OF_LIMITS: Final = _Override("wins over the limit that the pod asks for")
_BY_NAME: Final[Mapping[str, _Override]] = {
    CORE_POLICY_ENV: _Override(
        "can lift the limit on cores", "Remove it, or set it to force", frozenset({"default", "force"})
    ),
    CONTROL_ENV: _Override("switches HAMi-core off in the container", harmless=frozenset({"", "0", "f", "false"})),
    VISIBLE_ENV: _Override(
        "shows the container cards that it was not given",
        "Remove it, or set it to void in a container that needs no card",
        frozenset({"", "none", "void"}),
    ),
    PRELOAD_ENV: _Override(
        "takes the place of HAMi-core's library, or comes before it",
        "Set it in a script of the image that starts the program",
    ),
}


def first(raw: Json, pod: Pod, request: DeviceRequest) -> str:
    """Why the first override is refused, in the order of containers; empty where there is none.

    ``request`` is what the pod asks for.
    """
    for index, container in enumerate(pod.containers):
        path = container_path(pod, index)
        found = next(_of_env(at(raw, (*path, "env")), pod, request), "") or next(
            _of_sources(at(raw, (*path, "envFrom"))), ""
        )
        if found:
            return f"container {container.name}: {found}"
    return ""


def _of_env(items: object, pod: Pod, request: DeviceRequest) -> Iterator[str]:
    for item in items if isinstance(items, list) else ():
        if not isinstance(item, Mapping) or injection.is_ours(item, pod):
            continue
        name = str(item.get("name", ""))
        override = _OF_LIMITS if name.startswith(LIMITS) else _BY_NAME.get(name)
        if override is None or (name == CORE_POLICY_ENV and not 0 < request.cores < FULL):
            continue
        if "valueFrom" in item or str(item.get("value", "")).lower() not in override.harmless:
            yield f"the variable {name} {override.effect}. {override.remedy}"


def _of_sources(items: object) -> Iterator[str]:
    """``envFrom``: the names of its variables are in another object, which can change; a prefix narrows them."""
    for item in items if isinstance(items, list) else ():
        prefix = str(item.get("prefix") or "") if isinstance(item, Mapping) else ""
        name = next((each for each in (*LIMITS, *_BY_NAME) if each.startswith(prefix)), "")
        if name or prefix.startswith(LIMITS):
            given = f" with the prefix {prefix}" if prefix else ""
            yield (
                f"envFrom{given} can set variables such as {name or prefix} and so override the limits that the pod "
                "asks for. Name its variables one by one under env, or give it a prefix such as APP_"
            )
