"""No user allocates Neuron devices by nodeName and an annotation, and a larger allocation is reported."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from hami_plugins.errors import KubeError
from hami_plugins.kube import paths
from hami_plugins.kube.client import connect_to
from tests.integration.attacks.forgeries import NEURON_KEYS
from tests.integration.neuron_topology.server.servers import Site, a_node, site
from tests.integration.volcano_vgpu.allocation.servers import Client
from tests.unit.neuron_topology.server.cluster import a_pod
from tests.waiting import wait_for


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Site, Client]]:
    with site(tmp_path_factory.mktemp("site"), a_node("n1")) as made:
        client = made.start()
        made.install(client)
        yield made, client


def forged(name: str, annotations: dict[str, str], **more: Any) -> dict[str, Any]:
    raw = a_pod(name, 1, node="n1", annotations=annotations, **more)
    raw["metadata"] = {**raw["metadata"], "namespace": "default"}
    del raw["metadata"]["uid"]
    return raw


@pytest.mark.parametrize("scheduler", ["volcano", "default-scheduler"])
@pytest.mark.parametrize("requests", [True, False], ids=["with a request", "without a request"])
@pytest.mark.parametrize("key", NEURON_KEYS)
def test_a_pod_that_brings_its_node_and_an_allocation_is_not_created(
    server: tuple[Site, Client], key: str, requests: bool, scheduler: str
) -> None:
    raw = forged("forged", {key: "0,1,2,3"}, scheduler=scheduler)
    if not requests:
        raw["spec"]["containers"][0]["resources"] = {}
    with pytest.raises(KubeError, match="which only a scheduler writes") as refused:
        connect_to(server[0].server.url).create(paths.pods("default"), raw)
    assert refused.value.status == 403


def test_a_larger_allocation_is_a_finding(server: tuple[Site, Client], monkeypatch: pytest.MonkeyPatch) -> None:
    """The pod comes bound as a server that was away finds it."""
    made, client = server
    monkeypatch.setattr("hami_plugins.allocator.audit.EVERY", 0.0)
    made.put(forged("larger", {"AWS_NEURON_IDS": ",".join(map(str, range(16)))}))

    def found() -> list[dict[str, Any]]:
        return list(json.loads(client.get("/findings")[1])["findings"])

    (one,) = wait_for(found, "the finding is shown")
    assert (one["finding"], one["pods"]) == ("larger-than-request", ["default/larger"])
    assert "16 of aws.amazon.com/neuron, and 1 requested" in one["text"]
