"""The processes that have an image, each a target of the ``Dockerfile``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parent / "packages"


@dataclass(frozen=True, slots=True)
class Target:
    """One image. ``user`` is the user it runs as if a pod does not set one."""

    name: str
    user: str

    @property
    def packages(self) -> tuple[str, ...]:
        """The libraries that its processes import, and no others; a test traces them."""
        lines = (FOLDER / f"{self.name}.txt").read_text(encoding="utf-8").splitlines()
        return tuple(line for line in lines if line and not line.startswith("#"))


AGENT: Final = Target("volcano-vgpu-agent", user="0:0")
"""Root: the kubelet's and the runtime's folders are root's."""

ALLOCATOR: Final = Target("allocator", user="65532:65532")
KOORDINATOR: Final = Target("koordinator-adapter", user="65532:65532")
TARGETS: Final = (AGENT, ALLOCATOR, KOORDINATOR)
