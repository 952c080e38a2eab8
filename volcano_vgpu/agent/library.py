"""What containers cannot be limited without: HAMi-core's files, or the directories of MPS's control daemon."""

from __future__ import annotations

from pathlib import Path

from hami_plugins.node.hami_core.library import mismatch
from hami_plugins.wire.hami_core import LIBRARY, PRELOAD
from volcano_vgpu.core.edits import LICENSE, VALIDATOR
from volcano_vgpu.core.refusals import ContainerRefusal, RefusalCode

MPS_CONTROL = "control"
"""The pipe by which clients reach MPS's control daemon, in its pipe directory."""


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
    """Why no container can share a card through MPS here: its control daemon is not there.

    The daemon makes its pipe when it starts, and removes it when it quits. Without it CUDA programs would run on the
    card without MPS, and none of its limits would hold.
    """
    lacking = [name for name in ("pipe", "shm") if not (root / name).is_dir()]
    if not lacking and (root / "pipe" / MPS_CONTROL).exists():
        return None
    what = f"has no {' and '.join(lacking)} there" if lacking else f"does not run: pipe/{MPS_CONTROL} is missing"
    return ContainerRefusal(
        RefusalCode.MPS,
        f"{root}: MPS's control daemon {what}; start it on this node (CUDA_MPS_PIPE_DIRECTORY={root}/pipe "
        "nvidia-cuda-mps-control -d), or set mode hami-core for it",
    )
