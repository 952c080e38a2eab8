"""The node of the cluster as the cases of ``tests.contract.kubelet`` want it."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from signal import SIGKILL
from subprocess import CompletedProcess
from typing import Any, Final

import yaml

from hami_plugins.kube import paths
from hami_plugins.kube.client import connect
from hami_plugins.kube.port import KubeApi
from hami_plugins.node.kubelet.sockets import KUBELET_SOCKET
from tests.cluster.containerd import CDI_FOLDER, SOCKET
from tests.cluster.images import BASE
from tests.cluster.node import DEVICE_PLUGINS, POD_RESOURCES, Node
from tests.cluster.waiting import wait_until
from tests.contract.kubelet.cases import Case
from tests.contract.kubelet.trial import Trial

PERIODS: Final = {"nodeStatusUpdateFrequency": "1s", "syncFrequency": "2s"}
"""Shorter than usual, so that less is waited for. Ten seconds of pause after an error are a constant in the kubelet."""

SIDE_BY_SIDE: Final = (
    # These wait the longest, for the pauses after errors.
    "allocate-error",
    "cdi-missing",
    "crash-loop",
    "pre-start-error",
    "waits-for-plugin",
    # These wait for pods and for the node's status.
    "asks-nothing",
    "cdi",
    "cdi-twice",
    "falls-ill",
    "given-again",
    "last-devices",
    "no-preference",
    "order-of-calls",
    "plain-answer",
    "plugin-gone",
    "preference",
    "recorded-at-start",
    "started-on-ill-device",
    "thrown-out",
    "too-many",
    "who-wins",
)
"""Cases that may share the kubelet, for they neither end it nor list, which disturbs an Allocate (real-cluster 3h)."""

AT_A_TIME: Final = 8


class RealKubelet:
    """See ``KubeletUnderTest``; one for each case."""

    def __init__(self, node: Node, api: KubeApi, case: str) -> None:
        self._node = node
        self.api = api
        self.node = node.name
        self.plugin_directory = node.path(DEVICE_PLUGINS)
        self.pod_resources_socket = node.path(POD_RESOURCES)
        self.cdi_directory = node.path(CDI_FOLDER)
        self.scratch = node.machine.root / "scratch" / case  # the same path inside of the private machine
        self.patience = 60.0
        self.quiet = 4.0
        self.cdi_directory.mkdir(parents=True, exist_ok=True)
        self.scratch.mkdir(parents=True)
        self._starting: Future[None] | None = None

    def manifest(self, pod: dict[str, Any]) -> dict[str, Any]:
        ours = {"image": BASE, "imagePullPolicy": "Never"}
        spec = {
            "hostNetwork": True,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            **pod["spec"],
            "containers": [{**ours, **each} for each in pod["spec"]["containers"]],
            "initContainers": [{**ours, **each} for each in pod["spec"].get("initContainers") or ()],
        }
        return {**pod, "spec": spec}

    def environment(self, pod: Mapping[str, Any], container: str) -> Mapping[str, str]:
        """A container counts as running while runc is still there in its place, which has no PATH as the image has."""

        def begun() -> Mapping[str, str] | None:
            lines = self.read(pod, container, "/proc/1/environ").split("\0")
            found = {name: value for name, is_one, value in (line.partition("=") for line in lines) if is_one}
            return found if "PATH" in found else None

        found = wait_until(begun, f"the program of {container} has begun")
        assert found is not None
        return found

    def read(self, pod: Mapping[str, Any], container: str, path: str) -> str:
        metadata = pod["metadata"]
        return self._node.output(metadata["namespace"], metadata["name"], ["cat", path], container=container)

    def end(self, pod: Mapping[str, Any], container: str) -> None:
        status = self.api.get(paths.pod(pod["metadata"]["namespace"], pod["metadata"]["name"]))["status"]
        found = next(each for each in status["containerStatuses"] if each["name"] == container)
        done = self._ctr("tasks", "kill", "--signal", "SIGKILL", found["containerID"].rpartition("/")[2])
        assert done.returncode == 0, done.stderr

    def kill(self) -> None:
        self.settle()
        self._node.kubelet.stop(SIGKILL)

    def start(self) -> None:
        """Waits for kubelet.sock alone.

        Plugins have to be back before it takes pods in, which may be before it is known to be healthy; and it may be
        healthy before it clears the plugins' folder and opens its socket there.
        """
        before = self._identity()
        pool = ThreadPoolExecutor(1, "kubelet-start")
        self._starting = pool.submit(self._node.kubelet.start)
        pool.shutdown(wait=False)
        wait_until(lambda: self._identity() != before and self._answers(), "kubelet.sock is open", 60)

    def settle(self) -> None:
        """Waits for the end of a start that is under way."""
        if self._starting is not None:
            self._starting.result()
            self._starting = None

    def _identity(self) -> tuple[int, int]:
        found = (self.plugin_directory / KUBELET_SOCKET).stat()
        return found.st_ino, found.st_ctime_ns

    def _answers(self) -> bool:
        with socket.socket(socket.AF_UNIX) as probe:
            return probe.connect_ex(str(self.plugin_directory / KUBELET_SOCKET)) == 0

    def _ctr(self, *arguments: str) -> CompletedProcess[str]:
        program = str(self._node.plane.programs["ctr"])
        return self._node.machine.run([program, "--address", SOCKET, "--namespace", "k8s.io", *arguments])


class Trials:
    """Runs a case; the first of those that share the kubelet runs all of them that are ``wanted``."""

    def __init__(self, node: Node, api: KubeApi, wanted: Sequence[Case]) -> None:
        self._node = node
        self._api = api
        self._sharing = sorted(
            (case for case in wanted if case.name in SIDE_BY_SIDE), key=lambda case: SIDE_BY_SIDE.index(case.name)
        )
        self._tried: dict[str, Future[None]] = {}

    def run(self, case: Case) -> None:
        """Raises what the case raises."""
        if case not in self._sharing:
            self._run(case)
            return
        if not self._tried:
            with ThreadPoolExecutor(AT_A_TIME) as pool:
                self._tried = {each.name: pool.submit(self._run, each) for each in self._sharing}
        self._tried[case.name].result()

    def versions(self) -> Mapping[str, str]:
        """What was tried."""
        info = self._api.get(paths.node(self._node.name))["status"]["nodeInfo"]
        runtime, _, version = info["containerRuntimeVersion"].partition("://")
        return {"kubelet": info["kubeletVersion"].removeprefix("v"), runtime: version.removeprefix("v")}

    def _run(self, case: Case) -> None:
        kubelet = RealKubelet(self._node, self._api, case.name)
        try:
            with Trial(kubelet, case.name) as trial:
                case.run(trial)
        finally:
            kubelet.settle()
            if not self._node.kubelet.running:
                kubelet.start()
                kubelet.settle()


@contextmanager
def trials(node: Node, wanted: Sequence[Case]) -> Iterator[Trials]:
    """The node's kubelet with short periods; afterwards it runs with its own again."""
    config = node.machine.root / "kubelet.yaml"
    before = config.read_text()
    api = connect(kubeconfig=str(node.plane.admin_kubeconfig))
    try:
        config.write_text(yaml.safe_dump(yaml.safe_load(before) | PERIODS))
        _restart(node, api, "short-periods")
        yield Trials(node, api, wanted)
    finally:
        config.write_text(before)
        _restart(node, api, "own-periods")
        node.wait_ready()
        api.close()


def _restart(node: Node, api: KubeApi, why: str) -> None:
    kubelet = RealKubelet(node, api, why)
    kubelet.kill()
    kubelet.start()
    kubelet.settle()
