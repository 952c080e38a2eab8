"""Volcano: its scheduler, its controllers and its webhooks."""

from __future__ import annotations

import json
import urllib.request
from signal import SIGTERM, Signals
from typing import Final, NamedTuple

from tests.cluster import definitions
from tests.cluster.api import Object
from tests.cluster.etcd import healthy
from tests.cluster.kubernetes import ControlPlane
from tests.cluster.objects import pod, pod_spec, queue, task, vcjob
from tests.cluster.peers import VOLCANO
from tests.cluster.ports import free_port, listening
from tests.cluster.processes import Component
from tests.cluster.slices import jobs
from tests.cluster.waiting import wait_until

QUEUES: Final = "/apis/scheduling.volcano.sh/v1beta1/queues"
_ADMISSION: Final = "/apis/admissionregistration.k8s.io/v1"
_SERVICE: Final = "volcano-admission-service"
_LOADED: Final = "Finished loading scheduler config"
_SESSIONS: Final = "volcano_e2e_scheduling_latency_milliseconds_count"

CONFIGURATION: Final = """\
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
- plugins:
  - name: predicates
  - name: proportion
  - name: nodeorder
  - name: deviceshare
    arguments:
      deviceshare.VGPUEnable: true
      deviceshare.SchedulePolicy: binpack
      deviceshare.ScheduleWeight: 10
"""


class Hook(NamedTuple):
    """One of the paths that the webhook manager serves, and what the API server is to send there."""

    path: str
    group: str
    version: str
    resource: str
    operations: tuple[str, ...]

    @property
    def kind(self) -> str:
        return "Mutating" if self.path.endswith("/mutate") else "Validating"

    @property
    def name(self) -> str:
        return _SERVICE + self.path.replace("/", "-")


HOOKS: Final = (
    Hook("/jobs/mutate", "batch.volcano.sh", "v1alpha1", "jobs", ("CREATE",)),
    Hook("/jobs/validate", "batch.volcano.sh", "v1alpha1", "jobs", ("CREATE", "UPDATE")),
    Hook("/queues/mutate", "scheduling.volcano.sh", "v1beta1", "queues", ("CREATE",)),
    Hook("/queues/validate", "scheduling.volcano.sh", "v1beta1", "queues", ("CREATE", "UPDATE", "DELETE")),
    # With UPDATE the manager refuses every status that the scheduler writes, and nothing is ever enqueued.
    Hook("/podgroups/validate", "scheduling.volcano.sh", "v1beta1", "podgroups", ("CREATE",)),
    Hook("/hypernodes/validate", "topology.volcano.sh", "v1alpha1", "hypernodes", ("CREATE", "UPDATE")),
    Hook("/pods/validate", "", "v1", "pods", ("CREATE",)),
)


class Volcano:
    """Starts on creation; the default queue is then open and every webhook answers."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane
        self.machine = plane.machine
        self._conf = self.machine.root / "volcano" / "volcano-scheduler.conf"
        self._conf.parent.mkdir()  # a folder of its own: the scheduler watches all of it
        self._conf.write_text(CONFIGURATION)
        self.scheduler = self._scheduler()
        self._usual = tuple(self.scheduler.arguments)
        self.controllers = self._controllers()
        self.webhooks = self._webhooks()
        definitions.install(plane, definitions.published(VOLCANO.place() / "data"))
        plane.apply("/api/v1/namespaces", {"metadata": {"name": "volcano-system"}})
        plane.followers += [self.controllers.renew, self.webhooks.renew, self._renew_scheduler]
        for component in (self.scheduler, self.controllers):
            component.start()
        wait_until(self._queue_is_open, "Volcano's default queue is open", 60)
        self._register_hooks()
        self.webhooks.start()
        wait_until(self._hooks_answer, "the API server has seen the certificate of Volcano's webhooks", 30)

    def configure(self, text: str) -> None:
        """Give the scheduler another configuration and wait until it has read it."""
        before = self.scheduler.printed
        fresh = (
            self.machine.root / "tmp" / self._conf.name
        )  # elsewhere, for each change of its folder is a reason to read
        fresh.write_text(text)
        fresh.rename(self._conf)
        wait_until(lambda: _LOADED in self.scheduler.log(before), "vc-scheduler has read its configuration")

    def set_flags(self, *flags: str) -> None:
        """The scheduler's flags from its next start on, in addition to its own; the last one counts."""
        self.scheduler.arguments = [*self._usual, *flags]

    def restart_scheduler(self, number: Signals = SIGTERM) -> None:
        """Restart it, and change the nodes so that it sees their cards: it reads them only when a node changes.

        And only once its plugin for cards has been in a session.
        """
        self.scheduler.restart(number)
        wait_until(lambda: not self.scheduler.running or self._sessions(), "vc-scheduler has had a session", 60)
        for each in self.plane.api.items("/api/v1/nodes"):
            self.plane.touch_node(each["metadata"]["name"])

    def _sessions(self) -> float:
        """How many sessions have ended since the scheduler started."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self._metrics}/metrics", timeout=5) as answer:
            lines: list[str] = answer.read().decode().splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith(_SESSIONS))

    def _renew_scheduler(self) -> None:
        if self.scheduler.running:
            self.restart_scheduler()

    def story(self, namespace: str) -> str:
        """What it says of the PodGroups and pods of a namespace, and printed last."""
        groups = self.plane.api.items(f"/apis/scheduling.volcano.sh/v1beta1/namespaces/{namespace}/podgroups")
        found = [*groups, *self.plane.api.items(f"/api/v1/namespaces/{namespace}/pods")]
        told = {each["metadata"]["name"]: each.get("status") for each in found}
        events = self.plane.api.items(f"/api/v1/namespaces/{namespace}/events")
        ends = [
            f"{each.name}, {'running' if each.running else 'ended'}: {each.log()[-2000:]}"
            for each in (self.scheduler, self.controllers)
        ]
        return "\n".join([json.dumps(told, indent=1), *(str(each.get("message")) for each in events), *ends])

    def wait_for_job(self, namespace: str, name: str, phase: str, timeout: float = 60.0) -> Object:
        """The vcjob once it is in ``phase``; the failure shows its status and its pods'."""
        path = f"{jobs(namespace)}/{name}"

        def reached() -> Object | None:
            job = self.plane.api.get(path)
            return job if job.get("status", {}).get("state", {}).get("phase") == phase else None

        def story() -> str:
            job = self.plane.api.find(path) or {}
            pods = self.plane.api.items(f"/api/v1/namespaces/{namespace}/pods")
            shown = [job.get("status"), *({each["metadata"]["name"]: each["status"]} for each in pods)]
            return json.dumps(shown, indent=1) + "".join(self.plane.events(namespace, name))

        found = wait_until(reached, f"job {namespace}/{name} is {phase}", timeout, show=story)
        assert found is not None
        return found

    def _scheduler(self) -> Component:
        """Outside a cluster 1.14.1 dies at its first write to a node: for that it has an in-cluster client or none."""
        health, self._metrics = free_port(), free_port()
        arguments = [
            *self._common("vc-scheduler", health, self._metrics),
            f"--scheduler-conf={self._conf}",
            "--schedule-period=200ms",
            "--cache-dumper=false",
            "-v=3",
        ]
        account = self.plane.account_folder("vc-scheduler", self.plane.admin_token)
        return Component(
            self.machine,
            "vc-scheduler",
            self.machine.in_cluster(arguments, account),
            ready=lambda: healthy(f"http://127.0.0.1:{health}/healthz"),
            environment={"DEBUG_SOCKET_DIR": "/run/volcano", **self.plane.in_cluster_environment()},
        )

    def _controllers(self) -> Component:
        health = free_port()
        arguments = [
            *self._common("vc-controller-manager", health, free_port()),
            "--controllers=*,-sharding-controller",
            "-v=3",
        ]
        return Component(
            self.machine,
            "vc-controller-manager",
            arguments,
            ready=lambda: healthy(f"http://127.0.0.1:{health}/healthz"),
            environment={"DEBUG_SOCKET_DIR": "/run/volcano"},
        )

    def _common(self, name: str, health: int, metrics: int) -> list[str]:
        return [
            str(self.plane.programs[name]),
            f"--kubeconfig={self.plane.admin_kubeconfig}",
            "--leader-elect=false",
            "--scheduler-name=volcano",
            "--enable-healthz=true",
            f"--healthz-address=127.0.0.1:{health}",
            "--enable-metrics=true",
            f"--listen-address=127.0.0.1:{metrics}",
        ]

    def _webhooks(self) -> Component:
        self._hook_port = free_port()
        arguments = [
            str(self.plane.programs["vc-webhook-manager"]),
            f"--kubeconfig={self.plane.admin_kubeconfig}",
            f"--tls-cert-file={self.plane.pki.server_certificate}",
            f"--tls-private-key-file={self.plane.pki.server_key}",
            f"--ca-cert-file={self.plane.pki.ca}",
            "--listen-address=127.0.0.1",
            f"--port={self._hook_port}",
            f"--webhook-url=https://127.0.0.1:{self._hook_port}",
            "--scheduler-name=volcano",
            f"--enabled-admission={','.join(hook.path for hook in HOOKS)}",
        ]
        return Component(
            self.machine,
            "vc-webhook-manager",
            arguments,
            ready=lambda: listening(self._hook_port),  # only after it has written its authority into all hooks
            environment={"DEBUG_SOCKET_DIR": "/run/volcano"},
        )

    def _queue_is_open(self) -> bool:
        state: str = self.plane.api.get(f"{QUEUES}/default")["status"]["state"]
        return state == "Open"

    def _register_hooks(self) -> None:
        for hook in HOOKS:
            kind = f"{hook.kind}WebhookConfiguration"
            self.plane.apply(f"{_ADMISSION}/{kind.lower()}s", _hook_configuration(hook, kind, self._hook_port))

    def _hooks_answer(self) -> bool:
        """Ask for an object of each kind that has hooks, without making it. Raises ``ApiError`` while a hook fails."""
        job = vcjob("probe", task("worker", 1, pod_spec()))
        for collection, body in (
            (QUEUES, queue("probe")),
            (jobs("default"), job),
            ("/api/v1/namespaces/default/pods", pod("probe")),
        ):
            self.plane.api.request("POST", collection, body, query={"dryRun": "All"})
        return True


def _hook_configuration(hook: Hook, kind: str, port: int) -> Object:
    rule = {
        "apiGroups": [hook.group],
        "apiVersions": [hook.version],
        "resources": [hook.resource],
        "operations": list(hook.operations),
    }
    webhook = {
        "name": f"{hook.path.strip('/').replace('/', '-')}.volcano.sh",
        "clientConfig": {"url": f"https://127.0.0.1:{port}{hook.path}"},
        "admissionReviewVersions": ["v1"],
        "sideEffects": "NoneOnDryRun",
        "failurePolicy": "Fail",
        "timeoutSeconds": 10,
        "rules": [rule],
        "namespaceSelector": {
            "matchExpressions": [
                {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["volcano-system", "kube-system"]}
            ]
        },
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": hook.name},
        "webhooks": [webhook],
    }


def open_queue(plane: ControlPlane, name: str) -> None:
    """A queue, once Volcano's webhook knows it as open: before, it refuses the queue's jobs."""
    plane.apply(QUEUES, queue(name))
    probe = vcjob("probe", task("worker", 1, pod_spec()), queue=name)
    wait_until(
        lambda: plane.api.request("POST", jobs("default"), probe, query={"dryRun": "All"}), f"queue {name} takes jobs"
    )
