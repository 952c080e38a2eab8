"""Pods whose containers run in a virtual machine: devices that a node mounts into containers do not reach them.

HAMi and the node agents give a container its device files and libraries, which a virtual machine does not pass on
(HAMi website docs/faq/faq). Schedulers know nothing of it, and place such a pod.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from hami_plugins.queueing.stages import PodPlan

REMEDY: Final = "take a RuntimeClass that runs containers on the node's own kernel"

_KATA: Final = re.compile(r"(^|[^a-z])kata([^a-z]|$)")


def why_unreachable(runtime_class: str) -> str:
    """Why devices do not reach containers of this RuntimeClass; empty where they do.

    The handlers of Kata Containers, and the RuntimeClasses that its installer makes, are all named ``kata`` or
    ``kata-...`` (``kata-deploy``).
    """
    if not _KATA.search(runtime_class.lower()):
        return ""
    return (
        f"runtimeClassName {runtime_class} runs containers in a virtual machine, "
        "which devices that are mounted into a container do not reach"
    )


def notes(plan: PodPlan) -> Iterator[str]:
    """A note on a pod that asks for devices and runs in a virtual machine."""
    why = why_unreachable(plan.pod.runtime_class or "")
    if why and plan.intake.demand.devices.wants_devices:
        yield f"{why}; {REMEDY}"
