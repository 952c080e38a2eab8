"""``allocator check`` before, during and after a takeover, on the embedded cluster and on a listing."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from hami_plugins.cli.kit import edge
from hami_plugins.cli.kit.edge import Exit
from tests.integration.allocator.hami_pods import a_node, a_pod
from tests.integration.allocator.sites import Site, site
from tests.schema import published
from tests.unit.allocations.takeover.situations import component, configuration, hamis, ours

Check = Callable[..., tuple[int, dict[str, Any]]]


@pytest.fixture
def check(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Check:
    """Runs ``check`` for NVIDIA's cards; exit code and document."""
    monkeypatch.setenv("HAMI_PLUGINS__ALLOCATOR__VENDORS", '["NVIDIA"]')

    def ran(*arguments: str) -> tuple[int, dict[str, Any]]:
        code = edge.run(["allocator", "check", *arguments, "-o", "json"])
        return code, published(capsys.readouterr().out)

    return ran


def whats(document: dict[str, Any], severity: str) -> list[str]:
    return [each["object"] for each in document["findings"] if each["severity"] == severity]


def hami_runs(place: Site) -> None:
    """What HAMi's chart installs, as far as it is looked at."""
    place.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "hami"}})
    scheduler = component("hami-scheduler-1")
    scheduler["spec"] = {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]}
    text = yaml.safe_dump(configuration("hami-scheduler", extenders=["https://127.0.0.1:443"]))
    held = {"metadata": {"name": "hami-scheduler-newversion", "namespace": "hami"}, "data": {"config.yaml": text}}
    place.put(
        {"apiVersion": "v1", "kind": "Pod", **scheduler},
        {"apiVersion": "v1", "kind": "ConfigMap", **held},
        {"apiVersion": "admissionregistration.k8s.io/v1", **complete(hamis())},
    )


def complete(raw: dict[str, Any]) -> dict[str, Any]:
    """A webhook configuration that an API server takes; it is asked about nothing."""
    for hook in raw["webhooks"]:
        path = hook["clientConfig"]["service"]["path"]
        hook["clientConfig"] = {"service": {"name": "s", "namespace": "hami", "path": path}}
        hook |= {"sideEffects": "None", "admissionReviewVersions": ["v1"], "failurePolicy": "Ignore", "rules": []}
    return raw


def test_a_cluster_before_during_and_after(check: Check, tmp_path: Path) -> None:
    with site(tmp_path, a_node("n1")) as place:
        kubeconfig = str(place.server.kubeconfig(tmp_path / "kubeconfig"))
        hami_runs(place)
        code, before = check("--kubeconfig", kubeconfig)
        place.put({"apiVersion": "admissionregistration.k8s.io/v1", **complete(ours())})
        during_code, during = check("--kubeconfig", kubeconfig)
        place.server.delete("mutatingwebhookconfigurations", "hami-webhook")
        place.server.delete("pods", "hami-scheduler-1", "hami", grace=0)
        after_code, after = check("--kubeconfig", kubeconfig)
    assert (code, before["stage"], whats(before, "warning")) == (Exit.FINDINGS, "before", ["webhooks"])
    assert (during_code, during["stage"]) == (Exit.FINE, "during")
    assert whats(during, "info") == ["webhooks hami-webhook", "HAMi's scheduler"]
    assert (after_code, after["stage"], after["findings"]) == (Exit.FINE, "after", [])


def test_a_listing_is_checked_by_what_it_holds(check: Check, tmp_path: Path) -> None:
    held = a_node("n1")
    held["metadata"]["annotations"]["hami.io/mutex.lock"] = "2026-11-24T00:00:00Z,default,gone"
    pod = {**a_pod("p"), "apiVersion": "v1", "kind": "Pod"}
    pod["spec"]["schedulerName"] = "hami-scheduler"
    config_map = {"kind": "ConfigMap", "metadata": {"name": "s", "namespace": "hami"}}
    broken = {**config_map, "data": {"a": "KubeSchedulerConfiguration: [", "b": "kind: x # KubeSchedulerConfiguration"}}
    text = yaml.safe_dump(configuration("other"))
    path = tmp_path / "dump.json"
    volcano = {"kind": "ConfigMap", "metadata": {"name": "volcano-scheduler-configmap", "namespace": "v"}}
    conf = {"volcano-scheduler.conf": "actions: allocate\ntiers: []\n", "broken": "a: ["}
    items = [held, pod, broken, {**config_map, "data": {"config.yaml": text, "other": "x"}}, {**volcano, "data": conf}]
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    code, found = check("--snapshot", str(path))
    assert (code, found["stage"]) == (Exit.FINDINGS, "neither")
    assert set(whats(found, "error")) == {"ConfigMap v/volcano-scheduler-configmap volcano-scheduler.conf"}
    assert whats(found, "warning") == ["profile hami-scheduler", "node n1"]
    assert whats(found, "info") == ["webhooks", "pods"]


def test_the_table_ends_with_the_stage(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "dump.json"
    path.write_text(json.dumps(ours()))
    assert edge.run(["allocator", "check", "--snapshot", str(path)]) == Exit.FINE
    assert capsys.readouterr().out == "stage: after\n"
    path.write_text(json.dumps(hamis()))
    assert edge.run(["allocator", "check", "--snapshot", str(path), "--no-headers"]) == Exit.FINDINGS
    out = capsys.readouterr().out
    assert (out.startswith("warning"), out.endswith("stage: before\n")) == (True, True)
