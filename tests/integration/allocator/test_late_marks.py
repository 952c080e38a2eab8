"""Volcano's pods that were created while no replica answered are marked, and not placed before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hami_plugins.sandbox.apiserver.faults import Fault, Refuse
from tests.integration.allocator.sites import MARK, Site, site
from tests.integration.volcano_vgpu.allocation.servers import a_node, a_pod
from tests.waiting import wait_for

WAITS = "not marked yet"


def mark_of(place: Site, name: str) -> str | None:
    found: dict[str, str] = place.server.get("pods", name, "default")["metadata"].get("annotations") or {}
    return found.get(MARK)


def with_scheduler(pod: dict[str, Any], name: str) -> dict[str, Any]:
    return {**pod, "spec": {**pod["spec"], "schedulerName": name}}


def test_a_pod_from_before_the_server_is_placed_once_the_scheduler_sees_its_mark(tmp_path: Path) -> None:
    with site(tmp_path, a_node("n")) as place:
        (pod,) = place.put(a_pod("early"))
        client = place.start()
        assert wait_for(lambda: mark_of(place, "early")) == "extender"
        assert WAITS in client.predicate(pod, "n", as_it_is=True)  # a session of the scheduler's that began before
        assert client.predicate(place.server.get("pods", "early", "default"), "n", as_it_is=True) == ""


def test_bound_pods_other_schedulers_pods_and_plain_pods_are_left_alone(tmp_path: Path) -> None:
    plain = a_pod("plain")
    plain["spec"]["containers"][0]["resources"] = {}
    others = (a_pod("bound", node="n"), with_scheduler(a_pod("other"), "default-scheduler"), plain)
    with site(tmp_path, a_node("n")) as place:
        place.put(*others, a_pod("early"))
        place.start()
        wait_for(lambda: mark_of(place, "early"))
        assert [mark_of(place, each["metadata"]["name"]) for each in others] == [None, None, None]


def test_a_pod_that_the_webhook_marked_is_written_by_nobody_else(tmp_path: Path) -> None:
    with site(tmp_path, a_node("n")) as place:
        client = place.start()
        place.install(client)
        (pod,) = place.create(a_pod("marked"))
        place.put(a_pod("early"))
        wait_for(lambda: mark_of(place, "early"))
        now = place.server.get("pods", "marked", "default")
    assert now["metadata"]["resourceVersion"] == pod["metadata"]["resourceVersion"]


def test_a_pod_that_the_server_may_not_write_is_placed_all_the_same(tmp_path: Path) -> None:
    with site(tmp_path, a_node("n")) as place:
        place.server.faults.add(Fault(action=Refuse(403), verb="patch", resource="pods", times=None))
        (pod,) = place.put(a_pod("early"))
        client = place.start()
        wait_for(lambda: client.predicate(pod, "n", as_it_is=True) == "")
        assert mark_of(place, "early") is None


def test_a_mark_that_fails_for_a_while_is_written_again(tmp_path: Path) -> None:
    with site(tmp_path, a_node("n")) as place:
        fault = place.server.faults.add(Fault(action=Refuse(503), verb="patch", resource="pods", name="early", times=5))
        (pod,) = place.put(a_pod("early"))
        client = place.start()
        assert WAITS in wait_for(lambda: client.predicate(pod, "n", as_it_is=True))
        assert wait_for(lambda: mark_of(place, "early")) == "extender"
        assert place.server.faults.struck(fault) == 5
