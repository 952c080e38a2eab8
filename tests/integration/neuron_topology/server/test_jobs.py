"""Volcano Jobs on their way into an API server that has them patched."""

from __future__ import annotations

from typing import Any

import pytest

from hami_plugins.errors import KubeError
from hami_plugins.kube.client import connect_to
from neuron_topology.core.names import DEVICES, INSTANCE_LABEL, LEGACY_DEVICES
from tests.integration.neuron_topology.server.servers import JOBS, Site, a_gang


def a_job(name: str, **limits: int) -> dict[str, Any]:
    made = a_gang(name, 2, 16)
    container = made["spec"]["tasks"][0]["template"]["spec"]["containers"][0]
    container["resources"] = {"limits": {key: str(value) for key, value in limits.items()}}
    del made["spec"]["minAvailable"]
    return made


def test_a_job_is_made_as_the_command_would_make_it(cluster: Site) -> None:
    cluster.install(cluster.start(), jobs=True)
    made = connect_to(cluster.server.url).create(JOBS, a_job("train", **{LEGACY_DEVICES: 16}))
    spec = made["spec"]
    resources = spec["tasks"][0]["template"]["spec"]["containers"][0]["resources"]
    assert resources == {"limits": {DEVICES: "16"}, "requests": {DEVICES: "16"}}
    assert (spec["minAvailable"], spec["networkTopology"]["mode"]) == (2, "hard")


def test_jobs_for_other_devices_are_not_even_asked_about(cluster: Site) -> None:
    client = cluster.start()
    cluster.install(client, jobs=True)
    made = connect_to(cluster.server.url).create(JOBS, a_job("plain", cpu=1))
    assert "networkTopology" not in made["spec"]
    _, text = client.get("/metrics")
    assert 'kind="job"' not in text


def test_a_job_that_no_node_can_ever_meet_is_not_made(cluster: Site) -> None:
    cluster.install(cluster.start(), jobs=True)
    large = a_job("large", **{DEVICES: 17})
    large["spec"]["tasks"][0]["template"]["spec"]["nodeSelector"] = {INSTANCE_LABEL: "trn1.32xlarge"}
    with pytest.raises(KubeError, match="17"):
        connect_to(cluster.server.url).create(JOBS, large)


def test_while_the_server_is_away_a_job_is_made_as_it_is(cluster: Site) -> None:
    client = cluster.start()
    cluster.install(client, jobs=True)
    cluster.end(client)
    made = connect_to(cluster.server.url).create(JOBS, a_job("train", **{DEVICES: 16}))
    assert "networkTopology" not in made["spec"]


def test_jobs_are_left_alone_unless_somebody_wants_them_patched(cluster: Site) -> None:
    cluster.install(cluster.start())
    made = connect_to(cluster.server.url).create(JOBS, a_job("train", **{DEVICES: 16}))
    assert "networkTopology" not in made["spec"]
