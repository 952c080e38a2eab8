"""Directories of containers and a host's processes, made for tests."""

from __future__ import annotations

from pathlib import Path

from tests.shared_regions import Made
from volcano_vgpu.core.edits import cache_name

UID = "0a1b2c3d-0000-4000-8000-00000000000a"
OTHER = "0a1b2c3d-0000-4000-8000-00000000000b"
WHOSE = f"{UID}_main"


def put(root: Path, made: Made | None, *, whose: str = WHOSE, name: str = "") -> Path:
    """A container's directory with its region; the name is the agent's own by default."""
    folder = root / whose
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / (name or cache_name(whose))
    return path if made is None else made.write(path)


def host(root: Path) -> Path:
    """Processes of a host, none of which is anybody's yet."""
    (root / "2").mkdir(parents=True)
    (root / "2" / "comm").write_text("kthreadd\n")
    return root


def process(root: Path, hostpid: int, inner: int, *, pod: str = UID, state: str = "S", cgroup: str = "") -> None:
    """A process of a pod in the host's /proc."""
    folder = root / str(hostpid)
    folder.mkdir()
    (folder / "status").write_text(
        f"Name:\tpython\nUmask:\t0022\nState:\t{state} (x)\nPid:\t{hostpid}\nNSpid:\t{hostpid}\t{inner}\nNSsid:\t1\t1\n"
    )
    slice_of = f"0::/kubepods.slice/kubepods-burstable-pod{pod.replace('-', '_')}.slice/cri-containerd-1.scope\n"
    (folder / "cgroup").write_text(cgroup or slice_of)
