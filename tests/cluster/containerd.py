"""containerd with runc. Paths are those inside the private machine."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.cluster import images
from tests.cluster.building import static_busybox
from tests.cluster.machine import Machine
from tests.cluster.overlay import overlays
from tests.cluster.processes import Component

SOCKET: Final = "/run/containerd/containerd.sock"
CDI_FOLDER: Final = "/var/run/cdi"


def snapshotter(machine: Machine) -> str:
    """The one that copies nothing where that is possible, else the one that works on every file system."""
    return "overlayfs" if overlays(machine.root) else "native"


def _config(root: Path, snapshots: str) -> str:
    return f"""\
version = 3
root = '/var/lib/containerd'
state = '/run/containerd'
[grpc]
  address = '{SOCKET}'
[ttrpc]
  address = '{SOCKET}.ttrpc'
[plugins.'io.containerd.internal.v1.opt']
  path = '/var/lib/containerd-opt'
[plugins.'io.containerd.nri.v1.nri']
  socket_path = '/var/run/nri/nri.sock'
  plugin_path = '{root}/nri/plugins'
  plugin_config_path = '{root}/nri/configurations'
[plugins.'io.containerd.cri.v1.images']
  snapshotter = '{snapshots}'
[plugins.'io.containerd.cri.v1.images'.pinned_images]
  sandbox = '{images.PAUSE}'
[plugins.'io.containerd.cri.v1.runtime']
  enable_cdi = true
  cdi_spec_dirs = ['{CDI_FOLDER}']
  restrict_oom_score_adj = true  # without CAP_SYS_RESOURCE a sandbox cannot have -998
  [plugins.'io.containerd.cri.v1.runtime'.cni]
    bin_dirs = ['{root}/cni/bin']
    conf_dir = '{root}/cni/conf'
  [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
    runtime_type = 'io.containerd.runc.v2'
    snapshotter = '{snapshots}'
    [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
      SystemdCgroup = false
"""


def containerd(machine: Machine, programs: Mapping[str, Path]) -> Component:
    """The component, not started yet."""
    folder = machine.root / "cni" / "conf"
    folder.mkdir(parents=True)
    # All pods are on the host's network, so no plugin is ever run; without a list the node is not ready.
    stub = {"cniVersion": "1.0.0", "name": "stub", "plugins": [{"type": "loopback"}]}
    (folder / "10-stub.conflist").write_text(json.dumps(stub))
    config = machine.root / "containerd.toml"
    config.write_text(_config(machine.root, snapshotter(machine)))
    arguments = [str(programs["containerd"]), "-c", str(config)]
    answers = [str(programs["ctr"]), "--address", SOCKET, "version"]
    return Component(machine, "containerd", arguments, ready=lambda: machine.run(answers).returncode == 0)


def import_images(machine: Machine, programs: Mapping[str, Path]) -> None:
    """Bring both images in."""
    for name, command in ((images.BASE, ["/bin/sh"]), (images.PAUSE, ["/bin/sleep", "2147483647"])):
        import_image(machine, programs, name, command)


def import_image(
    machine: Machine,
    programs: Mapping[str, Path],
    name: str,
    command: Sequence[str],
    *,
    scripts: Mapping[str, str] | None = None,
) -> None:
    """Make an image of busybox, and of scripts for it, and bring it in."""
    busybox = static_busybox()
    assert busybox is not None, "building.missing() tells"
    target = machine.root / f"{name.rpartition('/')[2].partition(':')[0]}.tar"
    images.archive(target, name, busybox, command, scripts=scripts)
    ctr = [str(programs["ctr"]), "--address", SOCKET, "--namespace", "k8s.io", "images"]
    done = machine.run([*ctr, "import", "--local", "--snapshotter", snapshotter(machine), str(target)])
    assert done.returncode == 0, done.stderr
