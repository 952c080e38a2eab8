"""Koordinator's koordlet, as a pod of the real node: it reports cards, and reaches containers through containerd's NRI.

Its program needs the C library of this machine, which the image of all test pods lacks. So its container has the
machine's files at ``/host`` and begins there.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tests.cluster.api import Object
from tests.cluster.koordinator import NAMESPACE, Koordinator
from tests.cluster.kubernetes import EVERYTHING
from tests.cluster.machine import hierarchies
from tests.cluster.node import Node
from tests.cluster.objects import container, pod
from tests.cluster.ports import free_port
from tests.cluster.waiting import wait_until

LOCKS: Final = Path("/tmp/vgpulock")  # noqa: S108 - a constant of koordlet's hook
_SLO: Final = "/apis/slo.koordinator.sh/v1alpha1/nodeslos"
_PODS: Final = f"/api/v1/namespaces/{NAMESPACE}/pods"
_NAME: Final = "koordlet"
_GATES: Final = ("AllBeta=false", "Accelerators=true", "GPUEnvInject=true")
"""The two that are about cards. Without the others it writes to no control group."""


class Koordlet:
    """Not started yet. ``library`` is the file that its hook mounts; it has to be on the node before a pod needs it."""

    def __init__(self, koordinator: Koordinator, node: Node, library: Path) -> None:
        self.plane = koordinator.plane
        self.node = node
        self.folder = self.plane.machine.root / _NAME
        self.library = library
        self._arguments = self._told()
        self._starts = 0

    def start(self, *cards: Object) -> None:
        """Starts and waits until containerd asks it about each container."""
        if not self.folder.exists():
            self._furnish(cards)
        slo = {"apiVersion": "slo.koordinator.sh/v1alpha1", "kind": "NodeSLO", "spec": {}}
        self.plane.apply(_SLO, {**slo, "metadata": {"name": self.node.name}})
        self._starts += 1
        self.plane.api.create(_PODS, self._pod())
        self.plane.wait_for_pod(NAMESPACE, self.name, "Running", 90)
        wait_until(lambda: "connect to nri server successfully" in self.log(), "koordlet has NRI", 90, show=self.log)

    def stop(self) -> None:
        """Ends it as a DaemonSet does that is deleted."""
        path = f"{_PODS}/{self.name}"
        self.plane.api.delete(path)
        wait_until(lambda: self.plane.api.find(path) is None, "koordlet is gone", 60)

    def log(self) -> str:
        """What it has printed since its last start."""
        return self.plane.pod_log(NAMESPACE, self.name)

    @property
    def name(self) -> str:
        """The name of its pod, a new one with each start."""
        return f"{_NAME}-{self._starts}"

    def _furnish(self, cards: Sequence[Object]) -> None:
        """Its folders. It looks for the kubelet's groups below the root of each hierarchy; here they are deeper."""
        for name in ("groups", "hooks", "cards", "metrics", "predictions"):
            (self.folder / name).mkdir(parents=True)
        for each in hierarchies():
            (self.folder / "groups" / each.name).symlink_to(each / self.plane.machine.name)
        (self.folder / "cards" / "cards.json").write_text(json.dumps(list(cards)))

    def _told(self) -> list[str]:
        token = self.plane.account(_NAME, EVERYTHING, namespace=NAMESPACE)
        folder = self.folder
        return [
            f"--kubeconfig={self.plane.kubeconfig(_NAME, token)}",
            f"--addr=127.0.0.1:{free_port()}",
            f"--feature-gates={','.join(_GATES)}",
            f"--cgroup-root-dir={folder / 'groups'}/",
            "--sys-root-dir=/sys/",
            "--sys-fs-root-dir=/sys/fs/",
            "--var-run-root-dir=/var/run/",
            "--run-root-dir=/run/",
            f"--tsdb-path={folder / 'metrics'}",
            f"--prediction-checkpoint-filepath={folder / 'predictions'}",
            f"--runtime-hooks-addr={folder / 'hooks.sock'}",
            f"--runtime-hooks-config-path={folder / 'hooks'}",
            f"--xpu-device-infos-dir={folder / 'cards'}",
            f"--hami-core-library-directory-path={self.library}",
            "--kubelet-preferred-address-type=Hostname",  # the only one at which this kubelet answers
            "--v=5",
        ]

    def _pod(self) -> Object:
        program = str(self.plane.programs[_NAME])
        named = {"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}
        mounts = [{"name": "host", "mountPath": "/host"}]
        main = container(command=["chroot", "/host", program, *self._arguments], volumeMounts=mounts) | {"env": [named]}
        volumes = [{"name": "host", "hostPath": {"path": "/"}}]
        body = pod(self.name, main, node=self.node.name, volumes=volumes, restart="Always")
        body["metadata"]["labels"] = {"koord-app": _NAME}
        return body


def a_card(at: int, *, memory: str = "40Gi") -> Object:
    """A card as a file below ``--xpu-device-infos-dir`` has it."""
    amounts: Mapping[str, Any] = {"gpu-core": "100", "gpu-memory": memory}
    usual = {"vendor": "nvidia", "model": "NVIDIA-A100", "uuid": f"GPU-koordlet-{at}", "minor": str(at)}
    return {**usual, "resources": amounts, "status": {"healthy": True}}
