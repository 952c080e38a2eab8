"""What containers cannot be limited without: HAMi-core's files, or the directories of MPS's control daemon."""

from __future__ import annotations

from pathlib import Path

from hami_plugins.node.hami_core.library import mismatch
from hami_plugins.wire.hami_core import LIBRARY, PRELOAD
from volcano_vgpu.core.edits import LICENSE, VALIDATOR
from volcano_vgpu.core.refusals import ContainerRefusal, RefusalCode


def missing(hook: Path, *, sha256: str = "") -> ContainerRefusal | None:
    """Why no container can be limited here: what it has to have mounted is not there, or has another checksum.

    A runtime that finds nothing at the path of a mount may make a directory there, and the container runs without any
    limit.
    """
    lacking = [str(hook / name) for name in (LIBRARY, PRELOAD) if not (hook / name).is_file()]
    if not lacking:
        why = mismatch(hook / LIBRARY, sha256)
        return ContainerRefusal(RefusalCode.LIBRARY, why) if why else None
    text = f"{' and '.join(lacking)}: no such file, and no limit would hold; set librarySource to the directory of "
    return ContainerRefusal(
        RefusalCode.LIBRARY, f"{text}the image that has HAMi-core and see the agent's log, or install it there"
    )


def licensed(hook: Path) -> bool:
    """Whether HAMi's license and its validator are there for containers; a runtime refuses to mount what is not."""
    return all((hook / name).is_file() for name in (LICENSE, VALIDATOR))


def without_mps(root: Path) -> ContainerRefusal | None:
    """Why no container can share a card through MPS here: its control daemon has no directories yet."""
    if (root / "pipe").is_dir() and (root / "shm").is_dir():
        return None
    text = f"{root}: MPS's control daemon has no pipe and shm there; start it on this node (nvidia-cuda-mps-control -d "
    return ContainerRefusal(RefusalCode.MPS, f"{text}with that directory), or set mode hami-core for it")
