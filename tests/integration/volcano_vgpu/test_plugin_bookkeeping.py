"""The thread that writes to Volcano: once, under conflicts and outages, and again after a crash."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from hami_plugins.errors import ContentionError, KubeError
from hami_plugins.kube import paths
from hami_plugins.model.units import PodUid
from tests.integration.volcano_vgpu.kubelets import NodePods
from tests.unit.volcano_vgpu.allocated_pods import LEFT, pod
from tests.waiting import PATIENCE, wait_for
from volcano_vgpu.agent.bookkeeper import Bookkeeper
from volcano_vgpu.core.refusals import ContainerRefusal, RefusalCode

BOUND = 1_795_246_593


class Writes:
    """An API server that patches pods on condition; the watch follows unless the test makes it lag."""

    def __init__(self, pods: NodePods) -> None:
        self.pods = pods
        self.bodies: list[Mapping[str, Any]] = []
        self.errors: list[KubeError] = []
        self.lagging = False

    def merge_patch(self, path: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
        self.bodies.append(body)
        if self.errors:
            raise self.errors.pop(0)
        about = body["metadata"]
        raw = next((each for each in self.pods.stored.values() if _path(each) == path), None)
        if raw is None:
            raise KubeError("not found", status=404)
        metadata = raw["metadata"]
        if (metadata["uid"], metadata["resourceVersion"]) != (about["uid"], about["resourceVersion"]):
            raise ContentionError("conflict", status=409)
        fresh = {**raw, "metadata": {**metadata, "resourceVersion": str(int(metadata["resourceVersion"]) + 1)}}
        fresh["metadata"]["annotations"] = {**metadata["annotations"], **about["annotations"]}
        self.pods.stored[metadata["uid"]] = fresh
        if not self.lagging:
            self.pods.watched[metadata["uid"]] = fresh
        return fresh


class World:
    """Pods, an API server, and what was served."""

    def __init__(self) -> None:
        self.pods = NodePods()
        self.api = Writes(self.pods)
        self.served: dict[str, tuple[str, ...]] = {}
        self.released: list[datetime] = []
        self.keeper = self.made()

    def made(self) -> Bookkeeper:
        self.keeper = Bookkeeper(
            self.api,
            self.pods,
            held=lambda uid: self.served.get(uid, ()),
            known=lambda: list(map(PodUid, self.served)),
            release_lock=lambda taken, _pod: self.released.append(taken),
            clock=time.monotonic,
            luck=random.Random(1),
        )
        return self.keeper

    def add(self, name: str = "p", **more: Any) -> str:
        raw = pod(name=name, bind_time=str(BOUND), bind_phase="allocating", **more)
        self.pods.put(raw)
        return str(raw["metadata"]["uid"])

    def serve(self, uid: Any) -> None:
        self.served[uid] = ("main",)
        self.keeper.served(uid, {})

    def annotations(self, uid: str) -> Mapping[str, str]:
        found: Mapping[str, str] = self.pods.stored[uid]["metadata"]["annotations"]
        return found

    def phase(self, uid: str) -> str:
        return self.annotations(uid)["volcano.sh/bind-phase"]


@pytest.fixture
def world() -> Iterator[World]:
    found = World()
    yield found
    assert found.keeper.stop(PATIENCE)


def _path(raw: Mapping[str, Any]) -> str:
    return paths.pod(raw["metadata"]["namespace"], raw["metadata"]["name"])


def test_one_conditional_patch_does_it_all(world: World) -> None:
    uid = world.add()
    world.keeper.start()
    world.serve(uid)
    assert world.keeper.settle(PATIENCE)
    assert (world.phase(uid), world.annotations(uid)[LEFT]) == ("success", "")
    (body,) = world.api.bodies
    assert (body["metadata"]["uid"], body["metadata"]["resourceVersion"]) == (uid, "1")


def test_the_lock_is_released_as_of_the_binding(world: World) -> None:
    uid = world.add()
    world.keeper.start()
    world.serve(uid)
    assert world.keeper.settle(PATIENCE)
    assert world.released == [datetime.fromtimestamp(BOUND, UTC)]


def test_a_binding_in_the_future_releases_no_lock(world: World) -> None:
    uid = world.add()
    world.pods.stored[uid]["metadata"]["annotations"]["volcano.sh/bind-time"] = "99999999999"
    world.keeper.start()
    world.serve(uid)
    assert world.keeper.settle(PATIENCE)
    assert world.phase(uid) == "success"
    assert world.released == []


def test_serving_again_writes_nothing(world: World) -> None:
    uid = world.add()
    world.keeper.start()
    for _ in range(5):
        world.serve(uid)
        assert world.keeper.settle(PATIENCE)
    assert len(world.api.bodies) == 1


def test_a_pod_that_moved_on_is_read_and_written_anew(world: World) -> None:
    uid = world.add()
    moved = {**world.pods.stored[uid]}
    moved["metadata"] = {**moved["metadata"], "resourceVersion": "7"}
    world.pods.stored[uid] = moved
    world.keeper.start()
    world.serve(uid)
    assert world.keeper.settle(PATIENCE)
    assert world.phase(uid) == "success"
    assert world.pods.reads == 1


def test_an_api_server_that_is_away_is_asked_again(world: World) -> None:
    uid = world.add()
    world.api.errors = [KubeError("refused"), KubeError("busy", status=503), KubeError("slow down", status=429)]
    world.keeper.start()
    world.serve(uid)
    assert world.keeper.settle(PATIENCE)
    assert world.phase(uid) == "success"


def test_one_pod_that_cannot_be_written_holds_up_no_other(world: World) -> None:
    bad, good = world.add("bad"), world.add("good")
    world.pods.watched[bad] = {**world.pods.watched[bad], "metadata": {"uid": bad}}
    world.keeper.start()
    world.served = {bad: ("main",), good: ("main",)}
    world.serve(bad)
    world.serve(good)
    wait_for(lambda: world.phase(good) == "success")


def test_a_pod_that_the_watch_has_not_shown_yet_is_written_all_the_same(world: World) -> None:
    uid = world.add()
    world.pods.watched.clear()
    world.keeper.start()
    world.serve(uid)
    assert world.keeper.settle(PATIENCE)
    assert world.phase(uid) == "success"


def test_a_pod_that_is_gone_is_forgotten(world: World) -> None:
    uid, deleted = world.add(), world.add("deleted")
    world.pods.delete(uid)
    del world.pods.stored[deleted]
    world.keeper.start()
    world.serve(uid)
    world.serve(deleted)
    assert world.keeper.settle(PATIENCE)


def test_a_pod_made_again_under_the_same_name_is_not_written(world: World) -> None:
    uid = world.add()
    world.pods.stored = {"uid-new": pod(uid="uid-new", bind_phase="allocating")}
    world.keeper.start()
    world.serve(uid)
    assert world.keeper.settle(PATIENCE)
    assert world.phase("uid-new") == "allocating"


def test_only_refusals_for_good_are_written(world: World) -> None:
    uid: Any = world.add()
    world.keeper.start()
    world.keeper.refused(uid, "main", ContainerRefusal(RefusalCode.CARD_FULL, "wait"))
    assert world.keeper.settle(PATIENCE)
    assert world.api.bodies == []
    for _ in range(3):
        world.keeper.refused(uid, "main", ContainerRefusal(RefusalCode.COUNT, "never", heals=False))
        assert world.keeper.settle(PATIENCE)
    assert world.phase(uid) == "failed"
    assert len(world.api.bodies) == 1
    assert world.released


@pytest.mark.parametrize("lost", ["before the patch", "before the lock"])
def test_a_crash_between_two_steps_is_made_up_for(world: World, lost: str) -> None:
    uid = world.add()
    world.served[uid] = ("main",)
    if lost == "before the lock":
        world.keeper.start()
        assert world.keeper.settle(PATIENCE)
        assert world.keeper.stop(PATIENCE)
        world.released.clear()
    world.made().start()
    assert world.keeper.settle(PATIENCE)
    assert world.phase(uid) == "success"
    assert world.released
    assert len(world.api.bodies) == 1


def test_nothing_is_done_when_there_is_nothing_to_do(world: World) -> None:
    world.add()
    world.keeper.start()
    assert world.keeper.settle(PATIENCE)
    assert (world.api.bodies, world.pods.reads) == ([], 0)
