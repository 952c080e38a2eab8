"""The commands of the allocator: what they print, what they find, and the server as a process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import urllib3
import yaml

from hami_plugins.allocations.manifests import allocator_configuration, stale_allocations
from hami_plugins.allocations.mode import AllocatorMode
from hami_plugins.cli.kit import edge
from hami_plugins.cli.kit.edge import Exit
from tests.integration.volcano_vgpu.allocation.servers import LEASE, Site, a_pod
from tests.schema import published
from tests.unit.allocator.products import settings, vendors_of
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


def written(folder: Path, name: str, content: object) -> str:
    path = folder / name
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return str(path)


@pytest.mark.parametrize("mode", ["extender", "webhook", "policy"])
def test_the_conf_that_is_printed_passes_its_own_check(run: Run, tmp_path: Path, mode: str) -> None:
    code, text = run("conf", "--mode", mode)
    assert code == Exit.FINE
    assert ("extender.urlPrefix: http://hami-plugins-allocator.kube-system.svc:9395/extender" in text) == (
        mode != "policy"
    )
    code, said = run("conf", "--mode", mode, "--check", written(tmp_path, "conf.yaml", text))
    assert (code, ": no defects" in said) == (Exit.FINE, True)


def test_with_preemption_the_conf_evicts_and_is_checked_for_that(run: Run, tmp_path: Path) -> None:
    config = written(tmp_path, "settings.yaml", "preemption: {mode: scheduler}")
    code, text = run("conf", "--config", config)
    assert (code, "actions: allocate, preempt, reclaim, backfill" in text) == (Exit.FINE, True)
    assert "extender.preemptableVerb: preemptable" in text
    assert "# plugin pdb is left out" in text
    printed = written(tmp_path, "conf.yaml", text)
    code, said = run("conf", "--config", config, "--check", printed, "--no-headers")
    assert (code, said.split()[:2]) == (Exit.FINE, ["info", "pdb"])
    without = written(tmp_path, "without.yaml", run("conf")[1])
    code, said = run("conf", "--config", config, "--check", without, "-o", "json")
    places = [(each["severity"], each["place"].rpartition(" ")[2]) for each in json.loads(said)["findings"]]
    assert code == Exit.FINDINGS
    assert {("info", "preempt"), ("error", "(extender)"), ("info", "enablePreemptable")} <= set(places)
    code, said = run("conf", "--check", printed, "-o", "json")
    assert code == Exit.FINDINGS
    assert "set preemption.mode" in said


def test_the_conf_is_a_document_for_programs_too(run: Run) -> None:
    document = json.loads(run("conf", "-o", "json")[1])
    assert document == allocator_configuration.document(
        AllocatorMode.EXTENDER, "http://hami-plugins-allocator.kube-system.svc:9395/extender", vendors_of(settings())
    )


def test_findings_name_place_and_remedy_and_make_the_exit_code_one(run: Run, tmp_path: Path) -> None:
    wrong = allocator_configuration.document(AllocatorMode.POLICY, "", vendors_of(settings()))
    manifest = {"kind": "ConfigMap", "data": {"volcano-scheduler.conf": yaml.safe_dump(wrong)}}
    path = written(tmp_path, "map.yaml", manifest)
    code, text = run("conf", "--mode", "extender", "--check", path, "--no-headers")
    assert code == Exit.FINDINGS
    assert "tiers[1].plugins[3] (deviceshare) deviceshare.VGPUEnable" in text
    assert "as `hami-plugins allocator conf` prints it" in text
    code, text = run("conf", "--check", path, "-o", "json")
    assert [each["severity"] for each in published(text)["findings"]] == ["error", "error"]


def test_the_conf_of_the_cluster_is_checked_where_it_is(run: Run, cluster: Site, tmp_path: Path) -> None:
    kubeconfig = str(cluster.server.kubeconfig(tmp_path / "kubeconfig"))
    code, text = run("conf", "--live", "--kubeconfig", kubeconfig)
    assert code == Exit.UNABLE
    assert "volcano-scheduler-configmap" in text
    held = yaml.safe_dump(
        allocator_configuration.document(
            AllocatorMode.EXTENDER, "http://allocator:9395/extender", vendors_of(settings())
        )
    )
    cluster.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "volcano-system"}})
    metadata = {"name": "volcano-scheduler-configmap", "namespace": "volcano-system"}
    cluster.put({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"my.conf": held}})
    assert run("conf", "--live", "--kubeconfig", kubeconfig)[0] == Exit.FINE


def test_the_conf_is_checked_for_a_release_of_volcano(run: Run, tmp_path: Path) -> None:
    path = written(tmp_path, "conf.yaml", run("conf", "--mode", "policy")[1])
    asked = ("conf", "--mode", "policy", "--check", path)
    code, text = run(*asked, "--scheduler", "volcano-1.16", "-o", "json")
    found = published(text)
    assert (code, found["release"]) == (Exit.FINDINGS, "1.16.0-alpha.1")
    assert [(each["severity"], each["place"]) for each in found["findings"]] == [("error", "mode policy")]
    code, text = run(*asked, "--scheduler", "volcano-1.15")
    assert (code, "no defects for mode policy for release 1.15.1" in text) == (Exit.FINE, True)
    code, text = run(*asked, "--scheduler", "volcano-1.17")
    assert (code, "--scheduler volcano-1.17: not a known release" in text) == (Exit.UNABLE, True)
    assert run("conf", "--scheduler", "volcano-1.15")[0] == Exit.UNABLE


@pytest.mark.parametrize(("tag", "release"), [("v1.16.0-alpha.1", "1.16.0-alpha.1"), ("v1.13.2", ""), ("latest", "")])
def test_the_release_of_a_cluster_is_that_of_the_schedulers_image(
    run: Run, cluster: Site, tmp_path: Path, tag: str, release: str
) -> None:
    kubeconfig = str(cluster.server.kubeconfig(tmp_path / "kubeconfig"))
    held = run("conf", "--mode", "policy")[1]
    cluster.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "volcano-system"}})
    metadata = {"name": "volcano-scheduler-configmap", "namespace": "volcano-system"}
    cluster.put({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"my.conf": held}})
    labels = {"app": "volcano-scheduler"}
    cluster.put(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "volcano-scheduler", "namespace": "volcano-system"},
            "spec": {
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {"containers": [{"name": "s", "image": f"volcanosh/vc-scheduler:{tag}"}]},
                },
            },
        }
    )
    code, text = run("conf", "--live", "--mode", "policy", "--kubeconfig", kubeconfig, "-o", "json")
    assert json.loads(text)["release"] == release
    assert code == (Exit.FINDINGS if release else Exit.FINE)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("- a", "not a mapping"),
        ("{kind: ConfigMap, data: {}}", "no volcano-scheduler.conf"),
        ("a: [", "not usable YAML"),
    ],
)
def test_what_is_no_conf_is_said_to_be_none(run: Run, tmp_path: Path, text: str, said: str) -> None:
    code, told = run("conf", "--check", written(tmp_path, "conf.yaml", text))
    assert (code, said in told) == (Exit.UNABLE, True)


def test_what_is_typed_wrong_is_named_in_words_of_the_command_line(run: Run, tmp_path: Path) -> None:
    code, said = run("conf", "--mode", "sometimes")
    assert (code, "'--mode': 'sometimes' is not one of 'extender', 'webhook', 'policy'" in said) == (Exit.UNABLE, True)
    code, said = run("conf", "--config", written(tmp_path, "settings.yaml", "volcano: {mode: sometimes}"))
    assert (code, said) == (
        Exit.UNABLE,
        "error: settings: volcano.mode: Input should be 'extender' or 'webhook' (found 'sometimes')\n",
    )
    code, said = run("conf", "--live", "--check", written(tmp_path, "conf.yaml", ""))
    assert (code, "cannot be combined with --live" in said) == (Exit.UNABLE, True)


def test_policy_and_webhooks_are_manifests_to_be_applied(run: Run, tmp_path: Path) -> None:
    code, text = run("stale-policy")
    assert code == Exit.FINE
    assert list(yaml.safe_load_all(text)) == list(stale_allocations.policy("v1beta1"))
    assert "# Not with Volcano from 1.16.0 on: there the Binding has the only copy of the allocation" in text
    assert json.loads(run("stale-policy", "--version", "v1alpha1", "-o", "json")[1])["items"][0]["apiVersion"].endswith(
        "v1alpha1"
    )
    assert run("stale-policy", "--version", "v9")[0] == Exit.UNABLE

    authority = written(tmp_path, "ca.crt", "PEM")
    (hooks,) = yaml.safe_load_all(run("webhooks", "--ca-file", authority, "--exempt", "quiet")[1])
    assert {hook["clientConfig"]["caBundle"] for hook in hooks["webhooks"]} == {"UEVN"}
    assert hooks["webhooks"][0]["namespaceSelector"]["matchExpressions"][0]["values"] == ["quiet", "kube-system"]
    (hooks,) = json.loads(f"[{run('webhooks', '--url', 'https://a:1', '-o', 'json')[1]}]")
    assert hooks["webhooks"][-1]["clientConfig"] == {"url": "https://a:1/webhooks/bindings"}


def test_pods_whose_cards_are_not_theirs_are_listed(run: Run, cluster: Site, tmp_path: Path) -> None:
    kubeconfig = str(cluster.server.kubeconfig(tmp_path / "kubeconfig"))
    cluster.put(a_pod("right", node="n1", ids="GPU-n1-0,NVIDIA,10000,0:"))
    code, text = run("audit", "--kubeconfig", kubeconfig)
    assert (code, "what 1 pods hold of 4 cards on 2 nodes adds up" in text) == (Exit.FINE, True)
    cluster.put(a_pod("foreign", node="n1", ids="GPU-n2-0,NVIDIA,10000,0:"))
    code, text = run("audit", "--kubeconfig", kubeconfig, "--no-headers")
    assert code == Exit.FINDINGS
    assert "card-of-another-node" in text
    assert "default/foreign" in text
    code, text = run("audit", "--kubeconfig", kubeconfig, "-o", "json")
    assert json.loads(text)["findings"][0]["finding"] == "card-of-another-node"


def test_the_process_serves_until_it_is_told_to_stop_and_hands_the_lease_back(cluster: Site, tmp_path: Path) -> None:
    told: dict[str, Any] = {
        "listen": {"host": "127.0.0.1", "port": 0},
        "webhooks": {"host": "127.0.0.1", "port": 0},
        "certificate": {"directory": str(cluster.folder)},
        "service": {"namespace": "default"},
        "lease": LEASE,
        "volcano": {"mode": "webhook"},
        "shutdownDelay": 0,
        "log": {"form": "json"},
    }
    kubeconfig = str(cluster.server.kubeconfig(tmp_path / "kubeconfig"))
    arguments = [
        "--config",
        written(tmp_path, "allocator.yaml", told),
        "--kubeconfig",
        kubeconfig,
    ]
    log = tmp_path / "log"
    with log.open("w") as stream, urllib3.PoolManager() as pool:
        process = subprocess.Popen(
            [sys.executable, "-m", "hami_plugins.cli", "allocator", "run", *arguments],
            stderr=stream,
            env={**os.environ, "POD_NAME": "replica-1"},
        )
        try:
            started = wait_for(lambda: _line(log, "allocator_started"), "it has started")
            assert started["mode"] == "webhook"
            url = f"http://{started['address']}/readyz"
            wait_for(lambda: pool.request("GET", url, retries=False).status == 200, "it is ready")
            assert _holder(cluster) == "replica-1"
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE) == Exit.FINE
        finally:
            process.kill()
            process.wait()
    assert _holder(cluster) == ""
    assert _line(log, "allocator_ended")


def test_a_server_without_a_certificate_says_so_and_ends(cluster: Site, tmp_path: Path) -> None:
    kubeconfig = str(cluster.server.kubeconfig(tmp_path / "kubeconfig"))
    directory = {"certificate": {"directory": str(tmp_path / "none")}, "listen": {"host": "127.0.0.1", "port": 0}}
    config = written(tmp_path, "g.yaml", directory)
    command = [sys.executable, "-m", "hami_plugins.cli", "allocator", "run", "--config", config]
    ended = subprocess.run(
        [*command, "--kubeconfig", kubeconfig], capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.returncode == Exit.UNABLE
    assert "none/tls.crt is not there; put it there, or" in ended.stderr


def _line(log: Path, event: str) -> dict[str, Any] | None:
    found = (json.loads(line) for line in log.read_text().splitlines() if line.startswith("{"))
    return next((line for line in found if line["event"] == event), None)


def _holder(cluster: Site) -> str:
    lease = cluster.server.get("leases.coordination.k8s.io", "hami-plugins-allocator", "default")
    return str(lease["spec"]["holderIdentity"])
