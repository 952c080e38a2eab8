"""A release of agent and allocator on the real node: its pods are containers of our image, with the chart's rights."""

from __future__ import annotations

import subprocess
import sys
import time
import urllib.request
from collections.abc import Mapping
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

import yaml

from charts.docker import image
from charts.docker.image import Built
from charts.docker.targets import AGENT, TARGETS, Target
from tests.cluster.agents import CDI, HOOK, card
from tests.cluster.allocator import command
from tests.cluster.api import Object
from tests.cluster.containerd import SOCKET, snapshotter
from tests.cluster.helm import UMBRELLA, Helm
from tests.cluster.kubernetes import ControlPlane
from tests.cluster.node import Node
from tests.cluster.peers import koordinator
from tests.cluster.ports import free_port
from tests.cluster.waiting import wait_until

FILES: Final = "/var/lib/charted"
CARDS: Final = 2
SLOTS: Final = 10 * CARDS


def import_images(node: Node, folder: Path) -> Built:
    """Builds the images and brings them in; what was built of the agent's."""
    built = {target: import_image(node, folder, target) for target in TARGETS}
    return built[AGENT]


def import_image(node: Node, folder: Path, target: Target) -> Built:
    """Builds an image and brings it in."""
    archive = folder / f"{target.name}.tar"
    built = image.build(target, archive, name=image.image_name(target))
    import_archive(node, archive)
    return built


def import_archive(node: Node, archive: Path) -> None:
    """Brings one image in."""
    ctr = [str(node.plane.programs["ctr"]), "--address", SOCKET, "--namespace", "k8s.io", "images"]
    words = ["import", "--local", "--snapshotter", snapshotter(node.machine), str(archive)]
    done = node.machine.run([*ctr, *words], timeout=120)
    assert done.returncode == 0, done.stderr


class Charted:
    """The release ``one`` in a namespace of its own; ``values`` are laid over those that this node needs."""

    def __init__(
        self, node: Node, helm: Helm, namespace: str, *, mode: str = "extender", chart: Path = UMBRELLA
    ) -> None:
        self.node = node
        self.plane = node.plane
        self.helm = helm
        self.namespace = namespace
        self.mode = mode
        self.chart = chart
        self.agent_port, self.plain_port, self.hook_port = free_port(), free_port(), free_port()
        files = node.path(FILES)
        files.mkdir(parents=True, exist_ok=True)
        # It begins as a library of this machine does, and nothing loads it.
        (files / "libvgpu.so").write_bytes(Path(sys.executable).read_bytes()[:64])
        held = {"driver": "550.54.15", "cards": [card(number) for number in range(1, CARDS + 1)]}
        (files / "cards.yaml").write_text(yaml.safe_dump(held))

    def values(self, **agent: Any) -> Mapping[str, Any]:
        """All pods are on the host's network, and there is no proxy to Services."""
        common = self._on_this_node()
        settings = {
            "cardsFile": "/cards/cards.yaml",
            "hookPath": HOOK,
            "lockPath": "/var/lib/vgpulock",
            "cdiDirectory": CDI,
            "startJitter": 0,
            "log": {"level": "debug", "form": "json"},
        }
        of_agent = {
            **common,
            "settings": settings,
            "port": self.agent_port,
            "library": {"hostPath": FILES},
            "nodeSelector": {"kubernetes.io/os": "linux"},
            "extraVolumes": [{"name": "cards", "hostPath": {"path": FILES}}],
            "extraVolumeMounts": [{"name": "cards", "mountPath": "/cards", "readOnly": True}],
            **agent,
        }
        return {"volcano-vgpu": {"agent": of_agent}, "allocator": self.allocator(mode=self.mode)}

    def allocator(self, **values: Any) -> Mapping[str, Any]:
        """The same for ``allocator`` alone."""
        url = {"verify": {"url": f"http://127.0.0.1:{self.plain_port}"}}
        settings = {"reservation": 61, "shutdownDelay": 0}
        return {"enabled": True, **self._on_this_node(), **self._server(settings), **url, **values}

    def koordinator(self) -> Mapping[str, Any]:
        """The same for ``koordinator-adapter``, with its part on nodes."""
        common = self._on_this_node()
        settings = {
            "shutdownDelay": 0,
            "injection": {"mode": "auto", "hookPath": HOOK, "lockPath": "/var/lib/vgpulock"},
            "translation": {"runtimeClass": ""},
        }
        part = {key: held for key, held in common.items() if key != "image"}
        node = {**part, "enabled": True, "port": self.agent_port, "library": {"hostPath": FILES}}
        url = {"verify": {"url": f"http://127.0.0.1:{self.plain_port}"}}
        return {"enabled": True, **common, **self._server(settings), "node": node, **url}

    def _on_this_node(self) -> dict[str, Any]:
        server = self.plane.in_cluster_environment()
        return {
            "hostNetwork": True,
            "listenHost": "127.0.0.1",
            "extraEnv": [{"name": name, "value": text} for name, text in server.items()],
            "image": {"pullPolicy": "Never", "registry": "docker.io"},
        }

    def _server(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "replicas": 1,
            "ports": {"plain": self.plain_port, "webhooks": self.hook_port},
            "settings": dict(settings),
            "webhooks": {"url": f"https://127.0.0.1:{self.hook_port}"},
            "certificate": {"names": ["127.0.0.1"]},
        }

    @property
    def installed(self) -> bool:
        """Whether the release is there."""
        return "one" in self.helm.run("list", "--short", "--namespace", self.namespace).split()

    def install(self) -> None:
        """Installs it, and waits until all its pods are ready."""
        self.helm.change("install", "one", self.namespace, values=self.values(), chart=self.chart)
        self.wait_ready()

    def seconds_to_ready(self, component: str, release: str = "one", namespace: str = "") -> float:
        """From the start of its only container until the kubelet has seen it ready; both are whole seconds."""

        def found() -> tuple[datetime, datetime]:
            """A container that another test has ended is not ready for a while; its pod's condition is an old one."""
            (pod,) = self.pods(component, release, namespace)
            (status,) = pod["status"]["containerStatuses"]
            ready = next(each for each in pod["status"]["conditions"] if each["type"] == "Ready")
            began = datetime.fromisoformat(status["state"]["running"]["startedAt"])
            done = datetime.fromisoformat(ready["lastTransitionTime"])
            assert ready["status"] == "True"
            assert done >= began
            return began, done

        began, done = wait_until(found, "the kubelet has seen it ready", 60, show=self.story)
        return (done - began).total_seconds()

    def printed(self, component: str) -> str:
        """The logs of the containers of one of its parts."""
        return "".join(
            self.plane.pod_log(self.namespace, pod["metadata"]["name"], pod["spec"]["containers"][0]["name"])
            for pod in self.pods(component)
        )

    def uninstall(self) -> None:
        """Removes it, as its page says. Raises ``HelmError``."""
        self.helm.run("uninstall", "one", "--namespace", self.namespace, "--wait", "--timeout", "200s")

    def wait_ready(self, timeout: float = 120.0) -> None:
        """Until the agent and the server answer, and the node offers all slots."""
        for port in (self.agent_port, self.plain_port):
            wait_until(partial(self.answers, port), f"{port} is ready", timeout, show=self.story)
        wait_until(lambda: self.slots() == SLOTS, f"the node offers {SLOTS} slots", timeout, show=self.story)

    def answers(self, port: int) -> bool:
        """Whether the process on that port is ready."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5):
                return True
        except OSError:
            return False

    def slots(self) -> int:
        """The slots that the node offers."""
        return int(self.object()["status"].get("allocatable", {}).get("volcano.sh/vgpu-number", "0"))

    def object(self) -> Object:
        """The node as the API server has it."""
        return self.plane.api.get(f"/api/v1/nodes/{self.node.name}")

    def pods(self, component: str, release: str = "one", namespace: str = "") -> list[Object]:
        """The pods of one of its parts, or of another release's."""
        labels = f"app.kubernetes.io/instance={release},app.kubernetes.io/component={component}"
        return self.plane.api.items(f"/api/v1/namespaces/{namespace or self.namespace}/pods", labelSelector=labels)

    def scheduler_conf(self) -> str:
        """Volcano's configuration for the mode, with the extender where this cluster has it."""
        printed = yaml.safe_load(command("conf", "--mode", self.mode, "-o", "yaml", product="allocator"))
        for tier in printed["tiers"]:
            for plugin in tier["plugins"]:
                if plugin["name"] == "extender":
                    plugin["arguments"]["extender.urlPrefix"] = f"http://127.0.0.1:{self.plain_port}/extender"
        return yaml.safe_dump(printed, sort_keys=False)

    def story(self) -> str:
        """What its pods say."""
        told = []
        for component in ("agent", "neuron", "allocator", "server", "node", "uninstall", "test"):
            for pod in self.pods(component):
                name = pod["metadata"]["name"]
                told.append(f"{name}: {pod['status']}" + "".join(self.plane.events(self.namespace, name)))
                container = pod["spec"]["containers"][0]["name"]
                try:
                    told.append(self.plane.pod_log(self.namespace, name, container)[-3000:])
                except Exception as error:  # noqa: BLE001 - the report covers what is known
                    told.append(str(error))
        return "\n".join(told)

    def process(self, component: str) -> int:
        """The process of its only pod, as this machine numbers it."""
        (pod,) = self.pods(component)
        (status,) = pod["status"]["containerStatuses"]
        wanted = status["containerID"].rpartition("/")[2]
        ctr = [str(self.plane.programs["ctr"]), "--address", SOCKET, "--namespace", "k8s.io", "tasks", "list"]
        listed = self.node.machine.run(ctr).stdout.splitlines()
        inside = next(int(line.split()[1]) for line in listed if line.startswith(wanted))
        return outside(self.node.machine.holder, inside)


def define_devices(plane: ControlPlane) -> None:
    """Koordinator's Device objects, as the release defines them."""
    name = "devices.scheduling.koordinator.sh"
    for path in sorted((koordinator().place() / "data").glob("*.yaml")):
        for body in yaml.load_all(path.read_text(), Loader=yaml.CSafeLoader):
            if isinstance(body, dict) and body.get("metadata", {}).get("name") == name:
                plane.apply("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", body)
    wait_until(lambda: plane.api.find("/apis/scheduling.koordinator.sh/v1alpha1/devices"), "Devices are served")


def outside(holder: int, inside: int) -> int:
    """The number of a process here that has the number ``inside`` in the machine's namespace."""
    namespace = Path(f"/proc/{holder}/ns/pid").readlink()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "status").read_text().split("NSpid:")[1].splitlines()[0].split()
            except (OSError, IndexError):
                continue
            if str(inside) in fields[1:2] and namespace.name:
                return int(entry.name)
    raise AssertionError(f"process {inside} of the machine is not to be seen")


def resident(pid: int) -> int:
    """Bytes of memory that a process has."""
    text = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) for line in text.splitlines() if line.startswith("VmRSS")) * 1024


def busy(pid: int, seconds: float) -> float:
    """The share of one core that a process uses over some seconds."""

    def ticks() -> int:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])

    began, before = time.monotonic(), ticks()
    time.sleep(seconds)
    rate = int(subprocess.run(["getconf", "CLK_TCK"], capture_output=True, text=True, check=True).stdout)  # noqa: S607
    return (ticks() - before) / rate / (time.monotonic() - began)
