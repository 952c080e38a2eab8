"""Whether this node's kubelet and container runtime pass on CDI names. Pure.

The kubelet hands the names of an answer to the runtime by default from 1.29 on (feature ``DevicePluginCDIDevices``);
containerd resolves them by default from 2.0 on, CRI-O from 1.23 on. In containerd 1.7 it is a setting that cannot be
seen from outside, and Docker's shim has no such thing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

_VERSION: Final = re.compile(r"v?(\d{1,4})\.(\d{1,4})", re.ASCII)
_KUBELET: Final = (1, 29)
_RUNTIMES: Final = {"containerd": (2, 0), "cri-o": (1, 23)}


class CdiSupport(NamedTuple):
    """Whether CDI names work here; ``why`` says by what, or what stands against it and how to change that."""

    works: bool
    why: str


def cdi_support(node: Mapping[str, Any]) -> CdiSupport:
    """What the node's ``status.nodeInfo`` says. What it does not say counts as no."""
    info = (node.get("status") or {}).get("nodeInfo") or {}
    kubelet = str(info.get("kubeletVersion") or "")
    runtime = str(info.get("containerRuntimeVersion") or "")
    name, _, version = runtime.partition("://")
    if (_number(kubelet) or (0, 0)) < _KUBELET:
        return CdiSupport(False, f"kubelet {kubelet or 'of unknown version'} does not pass CDI names on before 1.29")
    least = _RUNTIMES.get(name)
    if least is None:
        return CdiSupport(False, f"CDI support is unknown for runtime {runtime or 'without a name'}")
    if (_number(version) or (0, 0)) < least:
        return CdiSupport(
            False,
            f"{runtime} has CDI switched off by default; set enable_cdi = true in its CRI plugin and cdi: always here",
        )
    return CdiSupport(True, f"kubelet {kubelet} and {runtime}")


def _number(text: str) -> tuple[int, int] | None:
    match = _VERSION.match(text)
    return None if match is None else (int(match[1]), int(match[2]))
