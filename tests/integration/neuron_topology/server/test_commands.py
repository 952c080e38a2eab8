"""The commands of the Neuron allocator: what they print, what they find and repair, and the server as a process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import urllib3
import yaml

from hami_plugins.cli.kit import edge
from hami_plugins.cli.kit.edge import Exit
from hami_plugins.vendors.awsneuron import IDS_KEY
from tests.integration.neuron_topology.server.servers import Site, a_pod
from tests.schema import published
from tests.unit.allocator.products import MARK
from tests.waiting import PATIENCE, wait_for

Run = Callable[..., tuple[int, str]]


def got(url: str) -> urllib3.BaseHTTPResponse:
    with urllib3.PoolManager() as pool:
        return pool.request("GET", url, retries=False, timeout=PATIENCE)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs one of the commands; exit code and what it printed."""

    def ran(*arguments: str) -> tuple[int, str]:
        code = edge.run([*arguments])
        told = capsys.readouterr()
        return code, told.out + told.err

    return ran


@pytest.fixture
def kubeconfig(cluster: Site, tmp_path: Path) -> str:
    return str(cluster.server.kubeconfig(tmp_path / "kubeconfig"))


def test_the_conf_that_is_printed_passes_its_own_check(run: Run, tmp_path: Path) -> None:
    code, text = run("allocator", "conf")
    assert code == Exit.FINE
    assert "extender.urlPrefix: http://hami-plugins-allocator.kube-system.svc:9395/extender" in text
    path = tmp_path / "conf.yaml"
    path.write_text(text)
    code, said = run("allocator", "conf", "--check", str(path))
    assert (code, ": no defects" in said) == (Exit.FINE, True)


def test_a_conf_without_the_extender_is_found_out(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "conf.yaml"
    path.write_text("actions: allocate, preempt\ntiers:\n- plugins:\n  - name: gang\n")
    code, said = run("allocator", "conf", "--check", str(path), "-o", "json")
    findings = published(said)["findings"]
    assert (code, [each["place"] for each in findings]) == (
        Exit.FINDINGS,
        ["actions preempt", "extender", "network-topology-aware"],
    )
    assert "`hami-plugins allocator conf` prints it" in findings[1]["remedy"]


def test_kube_schedulers_conf_names_the_verbs_that_are_answered(run: Run) -> None:
    (extender,) = yaml.safe_load(run("allocator", "conf", "--kube-scheduler")[1])["extenders"]
    assert extender["urlPrefix"] == "http://hami-plugins-allocator.kube-system.svc:9395/scheduler"
    assert [extender[f"{verb}Verb"] for verb in ("filter", "prioritize", "bind")] == ["filter", "prioritize", "bind"]
    assert (extender["nodeCacheCapable"], extender["ignorable"]) == (True, False)


def test_only_bindings_of_marked_pods_wait_for_the_server(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HAMI_PLUGINS__ALLOCATOR__SERVICE__NAMESPACE", "elsewhere")
    document = yaml.safe_load(run("allocator", "webhooks")[1])
    hooks = {hook["name"].partition(".")[0]: hook for hook in document["webhooks"]}
    assert {name: hook["failurePolicy"] for name, hook in hooks.items()} == {
        "pods": "Ignore",
        "placed": "Fail",
        "marked": "Fail",
        "unmarked": "Ignore",
    }
    assert f"'{MARK}' in object.metadata.annotations" in hooks["marked"]["matchConditions"][0]["expression"]
    assert [each["name"] for each in hooks["pods"]["matchConditions"]] == ["asks-for-cards"]
    assert hooks["pods"]["clientConfig"]["service"]["namespace"] == "elsewhere"


@pytest.mark.parametrize("url", ["http://127.0.0.1:9443", "ftp://host", "https://", "host:9443"])
def test_webhooks_at_a_place_that_no_api_server_asks_are_not_printed(run: Run, url: str) -> None:
    code, said = run("allocator", "webhooks", "--url", url)
    assert (code, "write https://HOST:PORT" in said) == (Exit.UNABLE, True)
    assert run("allocator", "webhooks", "--url", "https://127.0.0.1:9443")[0] == Exit.FINE


def test_what_is_not_there_is_named_with_what_would_do(run: Run, kubeconfig: str, tmp_path: Path) -> None:
    code, said = run("allocator", "conf", "--live", "-n", "elsewhere", "--kubeconfig", kubeconfig)
    assert code == Exit.UNABLE
    assert said == (
        "error: ConfigMap elsewhere/volcano-scheduler-configmap: not found; give Volcano's namespace with -n, or "
        "give the file with --check FILE\n"
    )
    none = tmp_path / "none.yaml"
    assert run("allocator", "conf", "--check", str(none)) == (
        Exit.UNABLE,
        f"error: {none}: No such file or directory\n",
    )
    none.write_bytes(b"\xff")
    assert run("allocator", "conf", "--check", str(none)) == (Exit.UNABLE, f"error: {none}: not UTF-8 text (byte 0)\n")
    code, said = run("allocator", "verify", "allocator:9396")
    assert (code, said) == (
        Exit.UNABLE,
        "error: allocator:9396: not a server address; write http://NAME.NAMESPACE.svc:PORT\n",
    )


def test_settings_that_nobody_knows_end_the_command(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "settings.yaml"
    path.write_text("scheduler: {nodeSchedulerPolicy: fill}\n")
    code, said = run("allocator", "run", "--config", str(path))
    assert code == Exit.UNABLE
    assert "settings: scheduler.nodeSchedulerPolicy: Input should be 'binpack' or 'spread' (found 'fill')" in said


def test_devices_that_two_pods_hold_are_listed(cluster: Site, run: Run, kubeconfig: str) -> None:
    assert run("allocator", "audit", "--kubeconfig", kubeconfig)[0] == Exit.FINE
    for name in ("one", "other"):
        cluster.put(a_pod(name, 4, node="n1", annotations={IDS_KEY: "0,1,2,3"}))
    code, said = run("allocator", "audit", "--kubeconfig", kubeconfig, "-o", "json")
    document = published(said)
    assert (code, document["kind"]) == (Exit.FINDINGS, "AllocationAudit")
    assert {each["device"] for each in document["findings"]} == {f"n1-AWSNeuron-{at}" for at in range(4)}


def test_stale_maps_are_found_and_then_removed(cluster: Site, run: Run, kubeconfig: str) -> None:
    node = cluster.server.get("nodes", "n1")
    node["metadata"]["annotations"] = {
        "NEURON_DEV_USAGE_MAP": ",".join(["true"] * 4 + ["false"] * 12),
        "NEURON_CORE_USAGE_MAP": "true,fal",
        "other": "stays",
    }
    cluster.put(node)
    code, said = run("neuron", "repair", "--dry-run", "--kubeconfig", kubeconfig)
    assert code == Exit.FINDINGS
    assert "devices 0-3 are in use by no pod" in " ".join(said.split())
    assert {"NEURON_DEV_USAGE_MAP", "NEURON_CORE_USAGE_MAP"} <= set(
        cluster.server.get("nodes", "n1")["metadata"]["annotations"]
    )
    code, said = run("neuron", "repair", "--kubeconfig", kubeconfig, "-o", "json")
    assert (code, [each["state"] for each in published(said)["maps"]]) == (Exit.FINE, ["removed", "removed"])
    assert cluster.server.get("nodes", "n1")["metadata"]["annotations"] == {"other": "stays"}
    assert run("neuron", "repair", "--kubeconfig", kubeconfig) == (
        Exit.FINE,
        "every map of AWS's scheduler extension agrees with the pods\n",
    )


def test_the_server_is_a_process_that_ends_when_it_is_told(cluster: Site, tmp_path: Path, kubeconfig: str) -> None:
    settings = {
        "listen": {"host": "127.0.0.1", "port": 0},
        "webhooks": {"host": "127.0.0.1", "port": 0},
        "certificate": {"directory": str(cluster.folder)},
        "service": {"namespace": "default"},
        "shutdownDelay": 0,
        "log": {"form": "json"},
    }
    path = tmp_path / "settings.yaml"
    path.write_text(yaml.safe_dump(settings))
    command = [sys.executable, "-m", "hami_plugins.cli", "allocator", "run", "--config", str(path)]
    log = tmp_path / "log"
    with log.open("wb") as written:
        process = subprocess.Popen(
            [*command, "--kubeconfig", kubeconfig],
            stdout=written,
            stderr=written,
            env={**os.environ, "PYTHONPATH": str(Path.cwd())},
        )
    try:

        def started() -> str:
            events = [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]
            return next((str(each["address"]) for each in events if each.get("event") == "allocator_started"), "")

        address = wait_for(started, "it serves")
        ready = wait_for(lambda: got(f"http://{address}/readyz").status == 200, "it is ready")
        text = got(f"http://{address}/metrics").data.decode()
        assert ready
        assert "hami_allocator_active 1.0" in text
    finally:
        process.send_signal(signal.SIGTERM)
        code = process.wait(PATIENCE)
    assert code == 0, log.read_text()
