"""The page of nodes on a port of its own: what it shows, who answers, and what a stranger may do there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import urllib3

from hami_plugins.allocator.settings import AllocatorSettings
from tests import raw_objects
from tests.integration.allocator.hami_pods import VENDORS, a_node, a_pod, bind
from tests.integration.allocator.sites import Site, site
from tests.integration.volcano_vgpu.allocation.servers import Client
from tests.schema import ADAPTER
from tests.waiting import PATIENCE, wait_for

PAGE = {"enabled": True, "port": 0}


@contextmanager
def served(folder: Path, *nodes: dict[str, Any], **page: Any) -> Iterator[tuple[Site, Client]]:
    with site(folder, *nodes) as place:
        client = place.start(vendors=VENDORS, page={**PAGE, **page})
        place.install(client, vendors=VENDORS)
        yield place, client


def ask(client: Client, path: str = "/", method: str = "GET", **headers: str) -> urllib3.BaseHTTPResponse:
    address = client.server.page_address
    assert address is not None
    url = f"http://127.0.0.1:{address[1]}{path}"
    return urllib3.request(method, url, headers=headers, retries=False, timeout=PATIENCE)


def document(client: Client, query: str = "") -> Any:
    answer = ask(client, f"/nodes.json{query}")
    assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
    return json.loads(answer.data)


def test_it_shows_the_devices_who_holds_them_and_what_waits_and_why(tmp_path: Path) -> None:
    cordoned = a_node("n2")
    cordoned["spec"]["unschedulable"] = True
    with served(tmp_path, a_node("n1"), cordoned) as (place, client):
        small, large = place.create(a_pod("small"), a_pod("large", memory=50_000))
        wait_for(lambda: bind(client, small, "n1") == "")
        found = document(client)
        page = ask(client).data.decode()
    ADAPTER.validate_python(found)
    assert found["kind"] == "NodeDevices"
    assert [(each["name"], each["cordoned"]) for each in found["nodes"]] == [("n1", False), ("n2", True)]
    holders = [holder["pod"] for device in found["nodes"][0]["devices"] for holder in device["holders"]]
    assert holders == ["small"]
    (group,) = found["waiting"]["groups"]
    assert (found["waiting"]["pods"], group["names"]) == (1, ["default/large"])
    assert group["since"] == large["metadata"]["creationTimestamp"]
    assert "asked 50,000 MiB on 1 card; largest free 40,960 MiB" in group["why"]
    assert group["suggestions"] == ["fits with nvidia.com/gpumem: 40960 instead of 50000 (on n1)"]
    for words in ("default/small", "default/large", "What waits, and why", "40960 instead of 50000", "GPU-n1-0"):
        assert words in page


def test_it_is_off_and_bound_to_this_machine_unless_told() -> None:
    page = AllocatorSettings().page
    assert (page.enabled, page.host, page.port) == (False, "127.0.0.1", 9398)


def test_without_the_setting_there_is_no_port(tmp_path: Path) -> None:
    with site(tmp_path, a_node("n1")) as place:
        client = place.start(vendors=VENDORS)
        assert client.server.page_address is None
        assert client.get("/nodes.json")[0] == 404


def test_a_standby_says_who_has_the_lease_and_the_leader_goes_on(tmp_path: Path) -> None:
    with served(tmp_path, a_node("n1")) as (place, client):
        standby = place.start("two", ready=False, vendors=VENDORS, page=PAGE)
        wait_for(lambda: b"held by one" in ask(standby).data, "the standby has seen the lease")
        for path in ("/", "/nodes.json"):
            answer = ask(standby, path)
            assert (answer.status, answer.headers["content-type"]) == (503, "text/plain; charset=utf-8")
            assert b"Only the replica that has the lease knows the cluster" in answer.data
            assert "retry-after" in answer.headers
        assert ask(client).status == 200


def test_nobody_writes_frames_guesses_or_keeps_it(tmp_path: Path) -> None:
    with served(tmp_path, a_node("n1")) as (_, client):
        for path in ("/", "/nodes.json"):
            headers = ask(client, path).headers
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["cache-control"] == "no-store"
            policy = headers["content-security-policy"]
            assert policy.startswith("default-src 'none'; ")
            assert "frame-ancestors 'none'" in policy
            assert "script-src 'sha256-" in policy
            for method in ("POST", "PUT", "PATCH", "DELETE"):
                assert ask(client, path, method).status == 405
        assert ask(client, "/findings").status == 404
        assert ask(client, "/metrics").status == 404


def test_a_name_that_a_stranger_makes_lead_here_is_refused(tmp_path: Path) -> None:
    """Or a site that is open in a browser reads the page by a name of its own."""
    with served(tmp_path, a_node("n1")) as (_, client):
        assert ask(client, Host="evil.example").status == 400
        assert ask(client, Host="localhost:9398").status == 200


def test_another_address_takes_any_name(tmp_path: Path) -> None:
    with served(tmp_path, a_node("n1"), host="0.0.0.0") as (_, client):  # noqa: S104 - what is tried
        assert ask(client, Host="gpus.example").status == 200


def test_names_and_patterns_narrow_it(tmp_path: Path) -> None:
    with served(tmp_path, a_node("n1"), a_node("m1"), a_node("m2")) as (_, client):
        assert [each["name"] for each in document(client, "?name=m*")["nodes"]] == ["m1", "m2"]
        assert [each["name"] for each in document(client, "?name=m1&name=n1")["nodes"]] == ["m1", "n1"]
        assert document(client, "?name=none")["nodes"] == []
        assert ask(client, f"/?name={'x' * 101}").status == 400
        assert ask(client, f"/?{'&'.join(['name=x'] * 9)}").status == 400


def test_readers_share_a_look_at_the_cluster(tmp_path: Path) -> None:
    """However many read: the cluster is looked at again after some seconds."""
    with served(tmp_path, a_node("n1")) as (place, client):
        assert document(client)["waiting"]["pods"] == 0
        place.create(a_pod("late", memory=50_000))
        assert document(client)["waiting"]["pods"] == 0
        wait_for(lambda: document(client)["waiting"]["pods"] == 1, "the next look has it")


def test_what_strangers_call_their_pods_stays_text(tmp_path: Path) -> None:
    with served(tmp_path, a_node("n1")) as (place, client):
        asks = raw_objects.container(limits={"nvidia.com/gpu": "1"}, image="i")
        evil = "<script>alert(1)</script>"
        place.put(raw_objects.pod("p", asks, metadata={"namespace": "default"}, scheduler=evil))
        wait_for(lambda: evil in json.dumps(document(client)["waiting"]))
        page = ask(client).data
        assert b"&lt;script&gt;alert(1)" in page
        assert evil.encode() not in page


def test_a_malformed_node_hides_no_other(tmp_path: Path) -> None:
    broken = a_node("broken")
    broken["spec"]["taints"] = "broken"
    with served(tmp_path, a_node("n1"), broken) as (_, client):
        assert "n1" in [each["name"] for each in document(client)["nodes"]]


@pytest.mark.parametrize("scheduler", ["volcano", "other"])
def test_pods_of_every_scheduler_are_shown(tmp_path: Path, scheduler: str) -> None:
    with served(tmp_path, a_node("n1")) as (place, client):
        asks = raw_objects.container(limits={"nvidia.com/gpu": "1"}, image="i")
        place.put(raw_objects.pod("p", asks, metadata={"namespace": "default"}, scheduler=scheduler))
        wait_for(lambda: document(client)["waiting"]["pods"] == 1)


def test_a_large_cluster_arrives_whole_and_the_page_draws_a_part_of_it(tmp_path: Path) -> None:
    with served(tmp_path, *(a_node(f"n{at}", cards=1) for at in range(501))) as (_, client):
        answer = ask(client, "/nodes.json")
        assert len(answer.data) == int(answer.headers["content-length"]) > 200_000
        assert len(json.loads(answer.data)["nodes"]) == 501
        page = ask(client).data.decode()
    assert page.count('<article class="node"') == 500
    assert "500 of 501 nodes are drawn" in page
