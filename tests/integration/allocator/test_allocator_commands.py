"""The commands of the allocator of all vendors: what they print, what they find, and the server as a process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from hami_plugins.cli.kit import edge
from hami_plugins.cli.kit.edge import Exit
from tests.integration.allocator.sites import MARK, Site, site
from tests.integration.neuron_topology.server import servers as neuron
from tests.integration.volcano_vgpu.allocation import servers as vgpu
from tests.schema import published
from tests.waiting import PATIENCE, wait_for

Run = Callable[..., tuple[int, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs one of the commands; exit code and what it printed."""

    def ran(*arguments: str) -> tuple[int, str]:
        code = edge.run(["allocator", *arguments])
        told = capsys.readouterr()
        return code, told.out + told.err

    return ran


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Site]:
    with site(tmp_path, vgpu.a_node("cards"), neuron.a_node("trn")) as place:
        yield place


@pytest.fixture
def kubeconfig(cluster: Site, tmp_path: Path) -> str:
    return str(cluster.server.kubeconfig(tmp_path / "kubeconfig"))


@pytest.mark.parametrize("scheduler", [(), ("--kube-scheduler",), ("--mode", "webhook"), ("--mode", "policy")])
def test_the_conf_that_is_printed_passes_its_own_check(run: Run, tmp_path: Path, scheduler: tuple[str, ...]) -> None:
    code, text = run("conf", *scheduler)
    assert code == Exit.FINE
    path = tmp_path / "conf.yaml"
    path.write_text(text)
    code, said = run("conf", *scheduler, "--check", str(path))
    assert (code, ": no defects" in said) == (Exit.FINE, True)


def test_with_the_policy_no_scheduler_asks_a_server(run: Run) -> None:
    plugins = yaml.safe_load(run("conf", "--mode", "policy")[1])["tiers"][1]["plugins"]
    assert "deviceshare" in [each["name"] for each in plugins]
    assert "extender" not in [each["name"] for each in plugins]


def test_the_device_configuration_of_volcano_is_taken_as_it_is(run: Run, tmp_path: Path) -> None:
    content = "nvidia:\n  resourceCountName: example.com/vgpu\n"
    manifest = {"kind": "ConfigMap", "data": {"device-config.yaml": content}}
    path = tmp_path / "device-config.yaml"
    for text in (content, yaml.safe_dump(manifest)):
        path.write_text(text)
        (plugin,) = (
            each
            for each in yaml.safe_load(run("conf", "--device-config", str(path))[1])["tiers"][1]["plugins"]
            if each["name"] == "extender"
        )
        assert "example.com/vgpu" in plugin["arguments"]["extender.managedResources"]
    path.write_text("nvidia: 3\n")
    code, said = run("conf", "--device-config", str(path))
    assert (code, f"error: {path}: " in said) == (Exit.UNABLE, True)


def test_policy_needs_no_server(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "settings.yaml"
    path.write_text("volcano: {mode: policy}\n")
    code, said = run("run", "--config", str(path))
    assert code == Exit.UNABLE
    assert "settings: volcano.mode: Input should be 'extender' or 'webhook' (found 'policy')" in said


def test_kube_scheduler_asks_about_the_devices_that_its_pods_are_given(run: Run) -> None:
    (extender,) = yaml.safe_load(run("conf", "--kube-scheduler")[1])["extenders"]
    names = [each["name"] for each in extender["managedResources"]]
    assert names == ["aws.amazon.com/neuron", "aws.amazon.com/neuroncore", "aws.amazon.com/neurondevice"]


def test_calls_may_wait_for_hamis_device_plugins(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HAMI_PLUGINS__ALLOCATOR__VENDORS", '["NVIDIA"]')
    (extender,) = yaml.safe_load(run("conf", "--kube-scheduler")[1])["extenders"]
    assert extender["httpTimeout"] == "30s"
    assert "nvidia.com/gpu" in [each["name"] for each in extender["managedResources"]]


def test_what_is_wrong_with_kube_schedulers_conf_is_a_published_document(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "conf.yaml"
    path.write_text("kind: KubeSchedulerConfiguration\n")
    code, said = run("conf", "--kube-scheduler", "--check", str(path), "-o", "json")
    (finding,) = published(said)["findings"]
    assert (code, finding["place"]) == (Exit.FINDINGS, "extenders")


@pytest.mark.parametrize(
    "options", [("--check", "f.yaml", "--live"), ("--kube-scheduler", "--live"), ("--mode", "sometimes")]
)
def test_options_that_do_not_go_together_are_refused(run: Run, options: tuple[str, ...]) -> None:
    code, _ = run("conf", *options)
    assert code == Exit.UNABLE


def test_the_webhooks_are_about_both_vendors_and_about_jobs_on_request(run: Run) -> None:
    found = yaml.safe_load(run("webhooks")[1])
    assert [each["name"].partition(".")[0] for each in found["webhooks"]] == ["pods", "placed", "marked", "unmarked"]
    (asks,) = found["webhooks"][0]["matchConditions"]
    assert "volcano.sh/vgpu-number" in asks["expression"]
    assert "aws.amazon.com/neuron" in asks["expression"]
    assert MARK in found["webhooks"][2]["matchConditions"][0]["expression"]
    jobs = yaml.safe_load(run("webhooks", "--jobs")[1])["webhooks"][4]
    assert jobs["rules"][0]["resources"] == ["jobs"]
    assert "aws.amazon.com/neuron" in jobs["matchConditions"][0]["expression"]
    assert "volcano.sh" not in jobs["matchConditions"][0]["expression"].replace("batch.volcano.sh", "")


def test_the_policy_against_stale_allocations_is_printed(run: Run) -> None:
    policy, binding = yaml.safe_load_all(run("stale-policy")[1])
    assert policy["kind"] == "MutatingAdmissionPolicy"
    assert binding["spec"]["policyName"] == policy["metadata"]["name"]


def test_the_audit_is_about_both_vendors(run: Run, cluster: Site, kubeconfig: str) -> None:
    code, said = run("audit", "--kubeconfig", kubeconfig)
    assert (code, said.strip()) == (Exit.FINE, "what 0 pods hold of 18 cards on 2 nodes adds up")
    one = vgpu.a_pod("one", memory=40_000, node="cards", ids="GPU-cards-0,NVIDIA,40000,0:")
    two = vgpu.a_pod("two", memory=40_000, node="cards", ids="GPU-cards-0,NVIDIA,40000,0:")
    cluster.put(one, two)
    code, said = run("audit", "--kubeconfig", kubeconfig, "-o", "json")
    document = published(said)
    assert (code, document["kind"]) == (Exit.FINDINGS, "AllocationAudit")
    assert ["default/one", "default/two"] in [each["pods"] for each in document["findings"]]


def test_an_unknown_vendor_is_refused_at_the_start(run: Run, kubeconfig: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HAMI_PLUGINS__ALLOCATOR__VENDORS", '["nvidia"]')
    code, said = run("run", "--kubeconfig", kubeconfig)
    assert code == Exit.UNABLE
    assert said.startswith("error: settings: vendors: nvidia: unknown vendor; the vendors are NVIDIA")


def test_the_server_is_a_process_that_ends_at_a_signal(cluster: Site, kubeconfig: str, tmp_path: Path) -> None:
    listen = {"host": "127.0.0.1", "port": 0}
    settings = {
        "listen": listen,
        "webhooks": listen,
        "certificate": {"directory": str(cluster.folder)},
        "service": {"namespace": "default"},
        "shutdownDelay": 0,
        "log": {"form": "json"},
    }
    config, log = tmp_path / "settings.yaml", tmp_path / "log"
    config.write_text(yaml.safe_dump(settings))
    command = [sys.executable, "-m", "hami_plugins.cli", "allocator", "run", "--config", str(config)]
    with log.open("wb") as written:
        process = subprocess.Popen(
            [*command, "--kubeconfig", kubeconfig],
            stdout=written,
            stderr=written,
            env={**os.environ, "PYTHONPATH": str(Path.cwd())},
        )

    def started() -> dict[str, str]:
        events = [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]
        return next((each for each in events if each.get("event") == "allocator_started"), {})

    try:
        event = wait_for(started, "it serves")
        assert (event["mode"], event["vendors"]) == ("extender", "AWSNeuron, Volcano-vGPU")
    finally:
        process.send_signal(signal.SIGTERM)
        code = process.wait(PATIENCE)
    assert code == 0, log.read_text()


def test_hamis_own_files_become_settings_that_the_server_takes(run: Run, tmp_path: Path) -> None:
    values, devices, config = (tmp_path / name for name in ("values.yaml", "devices.yaml", "settings.yaml"))
    values.write_text("scheduler: {defaultMem: 5000, replicas: 2}\n")
    held = {"device-config.yaml": "nvidia: {resourceCountName: example.com/gpu, deviceSplitCount: 5}\n"}
    devices.write_text(yaml.safe_dump({"kind": "ConfigMap", "data": held}))
    code, said = run("settings", "--from-hami-values", str(values), "--from-device-config", str(devices))
    text, _, notes = said.partition("note: ")
    config.write_text(text)
    assert (code, "scheduler.replicas: chart value" in notes, "deviceSplitCount" in notes) == (Exit.FINE, True, True)
    code, conf = run("conf", "--kube-scheduler", "--config", str(config))
    assert (code, "name: example.com/gpu" in conf) == (Exit.FINE, True)
    code, said = run("settings", "--from-hami-values", str(values), "-o", "json")
    assert json.loads(said.partition("note: ")[0])["devices"] == {"nvidia": {"defaultMemory": 5000}}


def test_settings_of_hami_need_a_file_and_values_that_are_allowed(run: Run, tmp_path: Path) -> None:
    assert run("settings")[0] == Exit.UNABLE
    values = tmp_path / "values.yaml"
    values.write_text("scheduler: {defaultCores: 101}\n")
    code, said = run("settings", "--from-hami-values", str(values))
    assert (code, "devices.nvidia.defaultCores" in said, "found 101" in said) == (Exit.UNABLE, True, True)
