"""The Prometheus Operator takes what the charts render for it: by its definitions, and by the judge of its rules."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Final

import pytest

from tests.cluster import definitions
from tests.cluster.api import ApiError, Object
from tests.cluster.chart_values import CASES
from tests.cluster.helm import CHARTS, Helm, dry_run, objects
from tests.cluster.kubernetes import ControlPlane
from tests.cluster.peers import PROMETHEUS_OPERATOR
from tests.cluster.ports import free_port, listening
from tests.cluster.processes import Component

KINDS: Final = ("PodMonitor", "PrometheusRule", "ServiceMonitor")
GROUP: Final = "monitoring.coreos.com"
HOOKS: Final = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"


@pytest.fixture(scope="module")
def operator(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    """The cluster with the operator's definitions, and with its webhook in the way of rules."""
    definitions.install(control_plane, definitions.published(PROMETHEUS_OPERATOR.place() / "data"))
    port = free_port()
    arguments = [
        str(control_plane.programs["prometheus-operator-admission"]),
        f"--web.listen-address=127.0.0.1:{port}",
        f"--web.cert-file={control_plane.pki.server_certificate}",
        f"--web.key-file={control_plane.pki.server_key}",
    ]
    webhook = Component(control_plane.machine, "prometheus-operator", arguments, ready=lambda: listening(port))
    webhook.start()
    control_plane.api.create(HOOKS, _configuration(f"https://127.0.0.1:{port}", control_plane.pki.ca.read_bytes()))
    yield control_plane
    control_plane.api.delete(f"{HOOKS}/prometheus-operator")
    webhook.stop()


@pytest.fixture(scope="module")
def rendered(programs: Mapping[str, Path], tmp_path_factory: pytest.TempPathFactory) -> list[Object]:
    """What every set of values renders for the operator."""
    helm = Helm(programs["helm4"], tmp_path_factory.mktemp("helm"))
    every = [each for case in CASES for each in objects(helm.template(CHARTS / case.chart, case.values))]
    return [each for each in every if each["kind"] in KINDS]


def test_it_takes_every_field_of_all_monitors_and_rules(
    operator: ControlPlane, rendered: list[Object], namespace: str
) -> None:
    for each in rendered:
        dry_run(operator, {**each, "metadata": {**each["metadata"], "namespace": namespace}}, namespace)
    assert {each["kind"] for each in rendered} == set(KINDS)
    assert len(rendered) > len(KINDS)


def test_it_would_refuse_a_rule_that_prometheus_cannot_read(
    operator: ControlPlane, rendered: list[Object], namespace: str
) -> None:
    broken = deepcopy(next(each for each in rendered if each["kind"] == "PrometheusRule"))
    broken["metadata"]["namespace"] = namespace
    broken["spec"]["groups"][0]["rules"][0]["expr"] += " +"
    with pytest.raises(ApiError, match="Rules are not valid"):
        dry_run(operator, broken, namespace)


def test_it_would_refuse_a_monitor_with_a_field_that_it_does_not_know(
    operator: ControlPlane, rendered: list[Object], namespace: str
) -> None:
    broken = deepcopy(next(each for each in rendered if each["kind"] == "PodMonitor"))
    broken["metadata"]["namespace"] = namespace
    broken["spec"]["podMetricsEndpoints"][0]["every"] = "15s"
    with pytest.raises(ApiError, match="unknown field"):
        dry_run(operator, broken, namespace)


def _configuration(url: str, authority: bytes) -> Object:
    """As the operator's user guide has it."""
    client = {"url": f"{url}/admission-prometheusrules/validate", "caBundle": base64.b64encode(authority).decode()}
    rule = {"apiGroups": [GROUP], "apiVersions": ["*"], "resources": ["prometheusrules"], "operations": ["CREATE"]}
    webhook = {
        "name": f"prometheusrulevalidate.{GROUP}",
        "clientConfig": client,
        "rules": [rule],
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    return {"metadata": {"name": "prometheus-operator"}, "webhooks": [webhook]}
