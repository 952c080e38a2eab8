"""``koordinator doctor`` on a live cluster and on a dump of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hami_plugins.cli import main
from hami_plugins.sandbox.apiserver import ApiServer, Fault, Refuse
from tests.integration.koordinator_adapter.commands.conftest import Type
from tests.schema import ADAPTER
from tests.unit.koordinator_adapter.doctor.cluster import Raw, healthy

VERSIONS = {"DaemonSet": "apps/v1", "Deployment": "apps/v1"}


def put_all(server: ApiServer, objects: dict[str, Raw]) -> None:
    server.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "koordinator-system"}})
    for raw in sorted(objects.values(), key=lambda each: str(each["kind"]) != "Namespace"):
        # The server would call the one, and does not serve the other.
        if raw["kind"] not in {"MutatingWebhookConfiguration", "ValidatingAdmissionPolicy"}:
            server.put({"apiVersion": VERSIONS.get(raw["kind"], "v1"), **raw})


def test_a_cluster_in_which_nothing_is_wrong(server: ApiServer, type_in: Type) -> None:
    put_all(server, healthy())
    said = type_in("doctor")
    assert (said.code, said.out) == (0, "nothing is wrong\n")


def test_what_is_wrong_comes_with_its_command_and_a_status(server: ApiServer, type_in: Type) -> None:
    objects = healthy()
    del objects["settings"]
    put_all(server, objects)
    said = type_in("doctor")
    assert said.code == 1
    first, command, summary = said.out.splitlines()
    assert first.startswith("error: configmap/koordinator-system/slo-controller-config: is missing")
    assert command.startswith("    kubectl -n koordinator-system create configmap")
    assert summary == "1 error"
    document = json.loads(type_in("doctor", "-o", "json").out)
    ADAPTER.validate_python(document)
    assert [each["check"] for each in document["findings"]] == ["colocation"]


def test_what_may_not_be_read_is_said(server: ApiServer, type_in: Type) -> None:
    put_all(server, healthy())
    server.faults.add(Fault(action=Refuse(403), resource="configmaps", times=None))
    said = type_in("doctor")
    assert said.code == 0
    assert "not looked at: colocation and the profiles of the scheduler" in said.out


def test_a_dump_is_as_good_as_the_cluster(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    objects = healthy()
    objects["node"]["metadata"]["labels"] = {}
    dump = tmp_path / "cluster.json"
    dump.write_text(json.dumps({"kind": "List", "items": list(objects.values())}), encoding="utf-8")
    assert main(["koordinator", "doctor", "--snapshot", str(dump)]) == 1
    assert "kubectl label node gpu-1 koordinator.sh/gpu-isolation-provider=HAMi-core" in capsys.readouterr().out
    dump.write_text('{"kind": "List", "items": []}', encoding="utf-8")
    assert main(["koordinator", "doctor", "--snapshot", str(dump)]) == 2
    assert "kubectl get nodes,pods,devices" in capsys.readouterr().err
