"""docs/tasks/add-a-vendor.md works as it is written: planned, vetted, tested, allocated, and known to the chart."""

from __future__ import annotations

import http.client
import json
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from hami_plugins.allocator.handlers import SCHEDULER_PATH
from hami_plugins.sandbox.apiserver import VOLCANO, ApiServer
from tests.cluster.ports import free_port
from tests.contract.charts import schemas
from tests.integration.web.certificates import a_certificate
from tests.vendor_guide import TREE, Guide
from tests.waiting import PATIENCE, wait_for


@pytest.fixture(scope="module")
def guide(tmp_path_factory: pytest.TempPathFactory) -> Guide:
    found = Guide(tmp_path_factory.mktemp("guide"))
    found.follow()
    return found


def said(guide: Guide, beginning: str, end: str = "") -> str:
    (text,) = (text for line, text in guide.said.items() if line.startswith(beginning) and line.endswith(end))
    return text


def test_the_vendor_is_listed_with_its_facts(guide: Guide) -> None:
    listed = said(guide, "hami-plugins vendors")
    assert "acme.example/memory" in listed
    assert "acme-device-plugin" in listed
    assert "memory isolation   unknown" in listed.replace("       ", "   ")


def test_plan_places_its_pod_and_vet_finds_nothing(guide: Guide) -> None:
    assert "1 of 1 pod placed" in said(guide, "hami-plugins plan", "node.yaml")
    assert ",Acme,8000,50:;" in said(guide, "hami-plugins plan", "--annotations hami")
    assert said(guide, "hami-plugins vet").startswith("no ")


def test_the_tests_of_the_package_pass(guide: Guide) -> None:
    assert "3 passed" in said(guide, "python -m pytest")


def test_kube_scheduler_is_told_its_resources(guide: Guide) -> None:
    conf = said(guide, "hami-plugins allocator conf")
    assert all(f"acme.example/{name}" in conf for name in ("card", "memory", "cores"))


def test_the_values_for_the_chart_are_those_that_its_schema_wants(guide: Guide) -> None:
    values = yaml.safe_load((guide.folder / "acme-values.yaml").read_text(encoding="utf-8"))
    wanted = schemas.allocator()["properties"]
    assert values["vendors"] == ["Acme"]
    (entry,) = values["moreVendors"]
    assert entry.keys() == wanted["moreVendors"]["items"]["properties"].keys()
    assert entry["keys"] == ["hami.io/acme-devices-allocated", "hami.io/acme-devices-to-allocate"]
    assert [each["name"] for each in entry["resources"]] == [f"acme.example/{x}" for x in ("card", "memory", "cores")]


def test_images_and_charts_of_the_guide_are_there(guide: Guide) -> None:
    (docker,) = (line for line in guide.left if line.startswith("docker"))
    (helm,) = (line for line in guide.left if line.startswith("helm"))
    assert (guide.folder / docker.split()[-1] / "Dockerfile").is_file()
    assert (TREE / helm.split()[4] / "Chart.yaml").is_file()
    assert (guide.folder / helm.partition("--values ")[2].split()[0]).is_file()


@contextmanager
def running(guide: Guide, api: ApiServer, folder: Path) -> Iterator[int]:
    """The allocator as the guide starts it, but for the cluster, and for the ports of this machine; its plain port."""
    (line,) = (each for each in guide.left if each.startswith("hami-plugins allocator run"))
    port, hooks = free_port(), free_port()
    a_certificate(folder)
    told = {
        "LISTEN__HOST": "127.0.0.1",
        "LISTEN__PORT": port,
        "WEBHOOKS__HOST": "127.0.0.1",
        "WEBHOOKS__PORT": hooks,
        "CERTIFICATE__DIRECTORY": folder,
        "SERVICE__NAMESPACE": "default",
        "SHUTDOWN_DELAY": 0,
    }
    own = {f"HAMI_PLUGINS__ALLOCATOR__{name}": str(held) for name, held in told.items()}
    command = [sys.executable, "-m", "hami_plugins.cli", *shlex.split(line)[1:]]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [*command, "--kubeconfig", str(api.kubeconfig(folder / "kubeconfig"))],
            cwd=guide.folder,
            env={**guide.environment, **own},
            stdout=log,
            stderr=log,
        )
    try:
        wait_for(lambda: answered(port, "GET", "/readyz")[0] == 200, "it serves")
        yield port
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE)


def answered(port: int, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    """An answer of the allocator: the status (0: there is none), and the document."""
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=10)) as connection:
        try:
            connection.request(method, path, json.dumps(body), {"Content-Type": "application/json"})
            answer = connection.getresponse()
            return answer.status, answer.read()
        except OSError:
            return 0, None


def asked(port: int, verb: str, **body: Any) -> Any:
    """A call of kube-scheduler's extender."""
    status, text = answered(port, "POST", f"{SCHEDULER_PATH}/{verb}", body)
    assert status == 200, text
    return json.loads(text)


def test_the_allocator_gives_its_pod_a_slice(guide: Guide, tmp_path: Path) -> None:
    node = yaml.safe_load((guide.folder / "hami-acme" / "node.yaml").read_text(encoding="utf-8"))["items"][0]
    pod = yaml.safe_load((guide.folder / "hami-acme" / "job.yaml").read_text(encoding="utf-8"))
    pod["spec"]["schedulerName"] = "hami-scheduler"
    with ApiServer(kinds=VOLCANO) as api:
        api.put(node)
        made = api.put(pod)
        with running(guide, api, tmp_path) as port:
            wait_for(lambda: asked(port, "filter", Pod=made, NodeNames=["acme-0"])["NodeNames"], "a place")
            metadata = made["metadata"]
            names = {"PodName": metadata["name"], "PodNamespace": "default", "PodUID": metadata["uid"]}
            assert asked(port, "bind", **names, Node="acme-0")["Error"] == ""
        bound = api.get("pods", "train", "default")
    notes = bound["metadata"]["annotations"]
    assert bound["spec"]["nodeName"] == "acme-0"
    assert notes["hami.io/acme-devices-to-allocate"] == "acme-0-1,Acme,8000,50:;"
    assert notes["hami.io/acme-devices-allocated"] == notes["hami.io/acme-devices-to-allocate"]
