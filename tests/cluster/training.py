"""The real node as one of Trainium, and a stand-in for the image of a training job."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final, NamedTuple

from hami_plugins.node.kubelet.pod_resources import PodResources
from neuron_topology.core.names import DEVICES, INSTANCE_LABEL, ZONE_LABEL
from tests.cluster.api import Object
from tests.cluster.card_nodes import NODES
from tests.cluster.containerd import import_image
from tests.cluster.kubernetes import ControlPlane
from tests.cluster.node import DEVICE_PLUGINS, POD_RESOURCES, Node
from tests.cluster.objects import pod
from tests.cluster.peers import POLICIES_SERVED
from tests.cluster.slices import pods
from tests.cluster.volcano import QUEUES
from tests.cluster.waiting import wait_until
from tests.device_plugins.neuron import IDS, VISIBLE, NeuronPlugin

IMAGE: Final = "registry.example/train:1"
CLAIM: Final = "fsx-claim"
_SHARED: Final = "/var/lib/fsx"
_LABELS: Final = {INSTANCE_LABEL: "trn1.32xlarge", ZONE_LABEL: "use1-az1"}
HYPERNODES: Final = "/apis/topology.volcano.sh/v1alpha1/hypernodes"
_CLAIMS: Final = "/api/v1/namespaces/default/persistentvolumeclaims"
_VOLUMES: Final = "/api/v1/persistentvolumes"

SCRIPTS: Final = {
    "bash": 'exec /bin/sh -c "exec $2"\n',
    "neuron_parallel_compile": (
        'GRAPHS_ONLY=1 "$@" && mkdir -p "$NEURON_COMPILE_CACHE_URL" '
        '&& touch "$NEURON_COMPILE_CACHE_URL/graph.neff" && echo Compiler status PASS\n'
    ),
    "torchrun": (
        'echo "torchrun $*"; env; [ -z "$GRAPHS_ONLY" ] || exit 0\n'
        '[ -f "$NEURON_COMPILE_CACHE_URL/graph.neff" ] || { echo no graphs; exit 1; }\n'
        "trap 'exit 143' TERM; until [ -f /data/${TORCHX_JOB_ID##*/} ]; do sleep 0.1; done\n"
    ),
}
"""The image's bash, PyTorch and Neuron: it compiles immediately, and trains until the test ends it."""


def jobs_in(printed: str) -> list[str]:
    """The names of jobs as ``submit`` prints them."""
    return [line.rpartition(":")[2] for line in printed.splitlines() if line.startswith("kubernetes://torchx/")]


class HandedOut(NamedTuple):
    """The devices of a pod: the ids that the kubelet keeps, the allocator's, and what its container finds."""

    pod: str
    kubelet: tuple[str, ...]
    allocated: str
    visible: str
    files: tuple[str, ...]


def check_handed_out(pods: Sequence[HandedOut]) -> None:
    """Each pod of a gang finds four devices that the allocator chose for the gang, and no device is given twice.

    A plugin that AWS's is like cannot tell apart two equal pods that are bound at one moment: it may exchange them.
    """
    assert sorted(each.visible for each in pods) == sorted(each.allocated for each in pods)
    for each in pods:
        assert {f"/dev/neuron{number}" for number in each.visible.split(",")} == set(each.files)
        assert (len(each.kubelet), len(each.files)) == (4, 4)
    for given in ([one for each in pods for one in each.files], [one for each in pods for one in each.kubelet]):
        assert len(set(given)) == len(given)


class TrainingNode:
    """For the time of a ``with``: the device plugin, the image, the claim on a shared folder, and pods on the host's
    network."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.plane: ControlPlane = node.plane
        api = f"/apis/admissionregistration.k8s.io/{POLICIES_SERVED[self.plane.release]}"
        self._policies = f"{api}/mutatingadmissionpolicies", f"{api}/mutatingadmissionpolicybindings"
        self.shared: Path = node.path(_SHARED)
        self._plugin = NeuronPlugin(node.plane.api, node.name, node.path(DEVICE_PLUGINS), devices=16, cores=32, efa=8)

    def __enter__(self) -> TrainingNode:
        self.shared.mkdir(parents=True, exist_ok=True)
        import_image(self.node.machine, self.plane.programs, IMAGE, ["/bin/sh"], scripts=SCRIPTS)
        with ExitStack() as undo:
            undo.callback(self._label, dict.fromkeys(_LABELS))
            self._label(_LABELS)
            undo.enter_context(self._plugin)
            undo.callback(self._withdraw)
            self._wait_offered({"16"})
            for collection in (*self._policies, _VOLUMES, _CLAIMS):
                undo.callback(self.plane.api.delete, f"{collection}/{CLAIM}")
            self._claim()
            self._without_network()
            self._undo = undo.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._undo.close()

    def pods(self, job: str) -> list[Object]:
        """The pods of a job, by their rank."""
        found = self.plane.api.items(pods("default"), labelSelector=f"volcano.sh/job-name={job}")
        return sorted(found, key=lambda each: str(each["metadata"]["name"]))

    def wait_running(self, job: str, count: int) -> None:
        """All pods of the job run; the training is not done yet."""

        def running() -> bool:
            return [each["status"].get("phase") for each in self.pods(job)] == ["Running"] * count

        def story() -> str:
            names = (each["metadata"]["name"] for each in self.pods(job))
            return json.dumps(self.pods(job), indent=1) + "".join(
                line for name in names for line in self.plane.events("default", name)
            )

        wait_until(running, f"{count} pods of {job} run", 60, show=story)

    def log(self, job: str, rank: int) -> str:
        """What a pod of the job printed."""
        found = self.pods(job)[rank]
        return self.plane.pod_log("default", found["metadata"]["name"], found["spec"]["containers"][0]["name"])

    def handed_out(self, job: str) -> list[HandedOut]:
        """What each of its running pods got, by its rank."""
        with PodResources(self.node.path(POD_RESOURCES)) as kubelet:
            held = {each.pod: each.device_ids for each in kubelet.list(timeout=10) if each.resource == DEVICES}
        return [self._handed_out(each, held) for each in self.pods(job)]

    def _handed_out(self, pod: Object, held: Mapping[str, Collection[str]]) -> HandedOut:
        name, container = pod["metadata"]["name"], pod["spec"]["containers"][0]["name"]
        script = f"echo ${VISIBLE}; ls -d /dev/neuron*"
        visible, *files = self.node.output("default", name, ["sh", "-c", script], container=container).split()
        return HandedOut(name, tuple(sorted(held[name])), pod["metadata"]["annotations"][IDS], visible, tuple(files))

    def end(self, job: str) -> None:
        """The job has trained enough."""
        (self.shared / job).touch()

    def forget(self, queue: str) -> None:
        """Take away what the page has left: jobs, their queue, and the map of the network."""
        self.plane.clear_namespace("default")
        self.plane.api.delete(HYPERNODES)
        wait_until(lambda: self._without_queue(queue), f"queue {queue} is gone", 60)

    def _without_queue(self, queue: str) -> bool:
        """Volcano refuses to delete one that has PodGroups, or that is not closed."""
        path = f"{QUEUES}/{queue}"
        if self.plane.api.find(path) is not None:
            self.plane.api.delete(path)
        return self.plane.api.find(path) is None

    def _label(self, labels: Mapping[str, str | None]) -> None:
        self.plane.api.merge_patch(f"{NODES}/{self.node.name}", {"metadata": {"labels": dict(labels)}})

    def _withdraw(self) -> None:
        self._plugin.withdraw()
        self._wait_offered({None, "0"})

    def _wait_offered(self, amounts: set[str | None]) -> None:
        def offered() -> bool:
            status = self.plane.api.get(f"{NODES}/{self.node.name}")["status"]
            return {status[part].get(DEVICES) for part in ("capacity", "allocatable")} <= amounts

        wait_until(offered, f"the kubelet offers {amounts} devices", 60)

    def _claim(self) -> None:
        spec = {"accessModes": ["ReadWriteMany"], "storageClassName": ""}
        room = {"storage": "1Gi"}
        volume = {**spec, "capacity": room, "hostPath": {"path": _SHARED}}
        claim = {**spec, "resources": {"requests": room}, "volumeName": CLAIM}
        self.plane.api.create(_VOLUMES, {"metadata": {"name": CLAIM}, "spec": volume})
        self.plane.api.create(_CLAIMS, {"metadata": {"name": CLAIM}, "spec": claim})
        wait_until(
            lambda: self.plane.api.get(f"{_CLAIMS}/{CLAIM}").get("status", {}).get("phase") == "Bound", "it is bound"
        )

    def _without_network(self) -> None:
        """TorchX' pods are on a network of their own, and have a port; here there is only the host's, for all pods."""
        rule = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}
        chosen = {"matchLabels": {"kubernetes.io/metadata.name": "default"}}
        expression = (
            "[JSONPatch{op: 'add', path: '/spec/hostNetwork', value: true}] + (has(object.spec.containers[0].ports) ? "
            "[JSONPatch{op: 'remove', path: '/spec/containers/0/ports'}] : [])"
        )
        spec: Object = {
            "matchConstraints": {"resourceRules": [rule], "namespaceSelector": chosen},
            "failurePolicy": "Fail",
            "reinvocationPolicy": "Never",
            "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}],
        }
        policies, bindings = self._policies
        self.plane.api.create(policies, {"metadata": {"name": CLAIM}, "spec": spec})
        self.plane.api.create(bindings, {"metadata": {"name": CLAIM}, "spec": {"policyName": CLAIM}})
        probe = pod("probe")
        del probe["spec"]["hostNetwork"]

        def mutated() -> bool:
            answer = self.plane.api.request("POST", pods("default"), probe, query={"dryRun": "All"})
            return b'"hostNetwork":true' in answer

        wait_until(mutated, "pods are on the host's network", 60)
