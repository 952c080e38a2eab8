"""The commands about the server: what it is installed with, what it leaves, and how it starts and ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from hami_plugins.cli import main
from koordinator_adapter.core.translation.vocabulary import ISOLATION, OPT_IN
from tests.integration.koordinator_adapter.servers import Site, a_node
from tests.waiting import PATIENCE, wait_for

THEIRS = {
    "apiVersion": "scheduling.koordinator.sh/v1alpha1",
    "kind": "Device",
    "metadata": {"name": "n2"},
    "spec": {"devices": []},
}


def test_the_configurations_are_printed_to_be_applied(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    authority = tmp_path / "ca.crt"
    authority.write_text("authority")
    assert main(["koordinator", "webhooks", "--ca-file", str(authority), "--exempt", "infra"]) == 0
    mutating, validating = yaml.safe_load_all(capsys.readouterr().out)
    assert (mutating["kind"], validating["kind"]) == (
        "MutatingWebhookConfiguration",
        "ValidatingWebhookConfiguration",
    )
    for hook in (*mutating["webhooks"], *validating["webhooks"]):
        assert hook["clientConfig"]["service"]["name"] == "koordinator-adapter"
        assert hook["clientConfig"]["caBundle"] == "YXV0aG9yaXR5"
        exempt, *_ = hook["namespaceSelector"]["matchExpressions"]
        assert exempt["values"] == ["infra", "koordinator-system"]
    assert [hook["rules"][0]["operations"] for hook in mutating["webhooks"]] == [["CREATE"]] * 2
    assert any(OPT_IN in json.dumps(hook["objectSelector"]) for hook in mutating["webhooks"])
    monkeypatch.setenv("HAMI_PLUGINS__KOORDINATOR__INJECTION__MODE", "auto")
    assert main(["koordinator", "webhooks", "-o", "json", "--url", "https://localhost:1"]) == 0
    mutating, validating = json.loads(capsys.readouterr().out)["items"]
    assert mutating["webhooks"][2]["clientConfig"] == {"url": "https://localhost:1/webhooks/records"}
    assert validating["kind"] == "ValidatingWebhookConfiguration"


def test_what_the_server_put_into_the_cluster_is_removed_and_nothing_else(
    cluster: Site, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    cluster.put(a_node("n1", labels={ISOLATION: "HAMi-core", "mine": "x"}), a_node("n2"), THEIRS)
    server = cluster.start()
    wait_for(lambda: cluster.writes(server).get("labels"), "the node is published, summed and labelled")
    server.stop()
    kubeconfig = str(cluster.server.kubeconfig(tmp_path / "kubeconfig"))
    assert main(["koordinator", "clean", "--labels", "--dry-run", "--kubeconfig", kubeconfig]) == 0
    assert "would remove Device object n1" in capsys.readouterr().out
    assert cluster.device("n1") is not None
    assert main(["koordinator", "clean", "--labels", "--kubeconfig", kubeconfig]) == 0
    assert "removed resources of node n1" in capsys.readouterr().out
    assert cluster.device("n1") is None
    assert cluster.device("n2") is not None
    node = cluster.server.get("nodes", "n1")
    assert {"mine", "kubernetes.io/hostname", "kubernetes.io/os"} == set(node["metadata"]["labels"])
    assert not any(name.startswith("koordinator.sh/") for name in node["status"]["allocatable"])
    assert main(["koordinator", "clean", "--kubeconfig", kubeconfig]) == 0
    assert "nothing of the adapter was found" in capsys.readouterr().out


def test_a_server_starts_is_ready_and_ends_when_it_is_told(cluster: Site, tmp_path: Path) -> None:
    cluster.put(a_node("n1"))
    config = tmp_path / "settings.yaml"
    told = {
        "listen": {"host": "127.0.0.1"},
        "webhooks": {"host": "127.0.0.1"},
        "certificate": {"directory": str(tmp_path)},
        "service": {"namespace": "default"},
        "shutdownDelay": 0,
    }
    config.write_text(yaml.safe_dump(told))
    environment = {
        **os.environ,
        "HAMI_PLUGINS__KOORDINATOR__LISTEN__PORT": "0",
        "HAMI_PLUGINS__KOORDINATOR__WEBHOOKS__PORT": "0",
    }
    command = [sys.executable, "-m", "hami_plugins.cli", "koordinator", "serve", "--config", str(config)]
    kubeconfig = cluster.server.kubeconfig(tmp_path / "kubeconfig")
    process = subprocess.Popen([*command, "--kubeconfig", str(kubeconfig)], env=environment, stderr=subprocess.PIPE)
    try:
        wait_for(lambda: cluster.device("n1"), "the node is published")
    finally:
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, said.decode()


def test_the_part_on_a_node_has_to_know_which_node_it_is(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NODE_NAME", raising=False)
    assert main(["koordinator", "node"]) == 2
    assert "--node-name" in capsys.readouterr().err
