"""The real kube-scheduler with the configuration, the account and the Lease that the chart gives it, and the server."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from neuron_topology.core.names import DEVICES
from tests.cluster.allocator import Replica, marks
from tests.cluster.api import Object
from tests.cluster.helm import ALLOCATOR, Helm, objects, of_kind
from tests.cluster.kubernetes import ControlPlane
from tests.cluster.neuron import Machines, Submissions, ids_of
from tests.cluster.objects import container, pod
from tests.cluster.processes import Component
from tests.cluster.waiting import wait_until

PROFILE = "cards"
MARK = "hami-plugins.io/allocator"
NOWHERE = {"nodeSelector": {"test/nowhere": "true"}}


class Release:
    """The chart, installed and not run: its server and its kube-scheduler are processes here, with its accounts."""

    def __init__(self, plane: ControlPlane, helm: Helm, place: str) -> None:
        self.plane, self.helm, self.place = plane, helm, place
        told = yaml.safe_load(self._config_map(self._rendered(self._values("")), "allocator.yaml"))
        folder = plane.machine.root / place
        folder.mkdir()
        told["certificate"] |= {"directory": str(folder), "names": ["127.0.0.1"]}
        arguments = ("--kubeconfig", str(plane.machine.root / f"{place}-server.kubeconfig"))
        self.server = Replica(plane, f"{place}-server", told, arguments=arguments)
        written = yaml.safe_load(self.server.config.read_text())
        written["webhooks"]["configuration"] = told["webhooks"]["configuration"]
        self.server.config.write_text(yaml.safe_dump(written))
        self.scheduler: Component | None = None

    def __enter__(self) -> Release:
        url = f"https://127.0.0.1:{self.server.hook_port}"
        self.helm.change("install", "one", self.place, values=self._values(url), chart=ALLOCATOR)
        self._account("one-allocator", f"{self.place}-server")
        self.server.component.start()
        wait_until(lambda: self.server.ready, "the server answers", 60, show=self.server.component.log)
        self.server.establish_trust()
        probe = pod("probe", container(limits={DEVICES: 1}))
        wait_until(lambda: marks(self.plane, probe, MARK), "the API server trusts the webhooks", 90)
        self.scheduler = self._scheduler()
        self.scheduler.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.scheduler is not None:
            self.scheduler.stop()
        self.server.component.stop()
        self.helm.run("uninstall", "one", "--namespace", self.place, "--wait", "--no-hooks")

    def lease(self) -> Object:
        """That of kube-scheduler, which Helm has made."""
        path = f"/apis/coordination.k8s.io/v1/namespaces/{self.place}/leases/one-allocator-scheduler"
        return self.plane.api.get(path)

    def _scheduler(self) -> Component:
        """With the chart's text; where server and API server are is this machine's."""
        (held,) = (
            each["data"]["kube-scheduler.yaml"]
            for each in self.plane.api.items(f"/api/v1/namespaces/{self.place}/configmaps")
            if "kube-scheduler.yaml" in each["data"]
        )
        served = f"http://one-allocator.{self.place}.svc:9395/"
        assert served in held
        account = self._account("one-allocator-scheduler", f"{self.place}-scheduler")
        text = held.replace(served, f"http://127.0.0.1:{self.server.port}/")
        path = self.plane.machine.root / f"{self.place}-scheduler.yaml"
        path.write_text(f"{text}\nclientConnection: {{kubeconfig: {account}}}\n")
        flags = [f"--{kind}-kubeconfig={account}" for kind in ("authentication", "authorization")]
        return self.plane.scheduler(f"{self.place}-scheduler", f"--config={path}", "--leader-elect=true", *flags)

    def _account(self, name: str, file: str) -> Path:
        path = f"/api/v1/namespaces/{self.place}/serviceaccounts/{name}/token"
        token = self.plane.api.create(path, {"spec": {"expirationSeconds": 3600}})["status"]["token"]
        return self.plane.kubeconfig(file, token)

    def _values(self, url: str) -> Mapping[str, Any]:
        return {
            "global": {"imageRegistry": "registry.example"},
            "vendors": ["AWSNeuron"],
            "schedulerName": PROFILE,
            "kubeScheduler": {**NOWHERE, "enabled": True, "image": "registry.example/kube-scheduler:v1.34.4"},
            "webhooks": {"url": url},
            **NOWHERE,
        }

    def _rendered(self, values: Mapping[str, Any]) -> list[Object]:
        return objects(self.helm.template(ALLOCATOR, values, namespace=self.place))

    def _config_map(self, found: list[Object], key: str) -> str:
        (text,) = (each["data"][key] for each in of_kind(found, "ConfigMap") if key in each["data"])
        return str(text)


@pytest.fixture(scope="module")
def release(
    control_plane: ControlPlane, programs: Mapping[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Release]:
    helm = Helm(programs["helm3"], tmp_path_factory.mktemp("helm"), control_plane.admin_kubeconfig, hooks=False)
    place = f"scheduled-{secrets.token_hex(3)}"
    control_plane.create_namespace(place)
    with Release(control_plane, helm, place) as found:
        yield found
    control_plane.api.delete(f"/api/v1/namespaces/{place}")


def test_a_pod_of_the_charts_scheduler_is_bound_by_the_server_with_its_devices(
    release: Release, control_plane: ControlPlane, namespace: str
) -> None:
    machines = Machines(control_plane)
    with machines:
        machines.boot(1)
        submitted = Submissions(control_plane, machines, namespace)
        submitted.pod("asks", 4, scheduler=PROFILE)
        (bound,) = submitted.wait_bound("asks", 1)
        assert len(ids_of(bound)) == 4
        assert not machines.faults()
    assert release.server.metric("hami_allocator_answers_total", kind="bind") >= 1
    assert release.lease()["spec"]["holderIdentity"]


def test_a_plain_pod_of_the_charts_scheduler_is_bound_without_the_server(
    release: Release, control_plane: ControlPlane, namespace: str
) -> None:
    machines = Machines(control_plane)
    with machines:
        machines.boot(1)
        body = pod("plain", container(), nodeSelector=dict(machines.selector), schedulerName=PROFILE)
        control_plane.api.create(f"/api/v1/namespaces/{namespace}/pods", body)
        Submissions(control_plane, machines, namespace).wait_bound("plain", 1)
    assert release.server.ready
