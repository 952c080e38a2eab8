"""No user raises, forges or inflates an allocation: the server, the agent, an API server and a kubelet together.

The embedded API server has no admission policy, so every write of an annotation succeeds here.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.attacks.forgeries import CORES, IDS, LEFT, MEMORY, NODE, SIDECAR, WAYS, Forgery, Outcome
from tests.integration.attacks.forgeries import MORE as MORE_KEY
from tests.integration.attacks.stage import (
    CARDS,
    WAIT,
    A,
    Stage,
    a_pod,
    changes_nothing_while_it_runs,
    does_not_start,
    is_not_created,
    of,
    starts_as_bound,
    webhooks,
)
from tests.integration.volcano_vgpu.allocation.servers import Site
from tests.integration.volcano_vgpu.machines import NODE as NAME
from tests.integration.volcano_vgpu.machines import Machine, container, machine
from tests.waiting import wait_for


@pytest.fixture(scope="module")
def node() -> Iterator[Machine]:
    root = Path(tempfile.mkdtemp(prefix="vg"))
    try:
        with machine(root) as made:
            made.write_cards(*CARDS)
            yield made
    finally:
        shutil.rmtree(root)


@pytest.fixture(scope="module")
def stage(node: Machine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    site = Site(node.server, tmp_path_factory.mktemp("site"))
    client = site.start()
    site.put(webhooks(client.server, site.folder / "tls.crt"))
    made = Stage(node=node, owner=node.api, agent=node.start_agent(), server=client.server)
    try:
        made.wait_ready()
        yield made
    finally:
        made.stop()
        site.stop()


@pytest.fixture
def name(stage: Stage) -> Iterator[str]:
    found = next(stage.names)
    yield found
    stage.remove(found)


def test_there_are_many_ways_and_each_is_one_of_its_kind() -> None:
    assert len({str(each) for each in WAYS}) == len(WAYS) >= 40


@of(Outcome.REFUSED)
def test_a_pod_that_brings_its_node_and_an_allocation_is_not_created(stage: Stage, name: str, way: Forgery) -> None:
    is_not_created(stage, name, way)


@of(Outcome.NEVER)
def test_a_forged_allocation_does_not_start_and_the_pod_says_why(stage: Stage, name: str, way: Forgery) -> None:
    does_not_start(stage, name, way)


@of(Outcome.AS_BOUND)
def test_what_is_written_before_the_binding_has_no_effect(stage: Stage, name: str, way: Forgery) -> None:
    starts_as_bound(stage, name, way)


@of(Outcome.AS_BOUND, running=True)
def test_a_running_pod_changes_nothing_and_blocks_no_other(stage: Stage, name: str, way: Forgery) -> None:
    changes_nothing_while_it_runs(stage, name, way)


@pytest.mark.parametrize("always", [{}, SIDECAR], ids=["init container", "sidecar"])
def test_init_containers_and_sidecars_get_no_more_than_they_request(
    stage: Stage, name: str, always: dict[str, str]
) -> None:
    first = {**container("first", memory=MEMORY, cores=CORES), **always}
    uid = stage.create(a_pod(name, initContainers=[WAIT, first]))
    stage.bind(name)
    listed = stage.annotations(name)[MORE_KEY]
    assert listed.startswith("first=GPU-")
    stage.annotate(name, {MORE_KEY: listed.replace(f",{MEMORY},{CORES}:", ",40960,0:")})
    stage.begin(uid)
    told = wait_for(lambda: stage.node.waits(name, "first") or stage.started(uid, "first"), "it says why not")
    assert not stage.started(uid, "first"), told


def test_the_server_counts_a_forged_pod_with_its_request_and_tells_of_it(
    stage: Stage, node: Machine, name: str
) -> None:
    """It comes bound as a server that was away finds it."""
    forged = {IDS: f"{A},NVIDIA,40960,100:", LEFT: f"{A},NVIDIA,40960,100:", NODE: NAME}
    body = a_pod(name, nodeName=NAME)
    body["metadata"]["annotations"] = forged
    body["metadata"]["namespace"] = "default"
    node.server.put({"apiVersion": "v1", "kind": "Pod", **body})

    def used() -> list[int]:
        found = stage.server.snapshot()
        assert found is not None
        return [held.memory for entry in found.nodes for held in entry.state.usage if held.memory]

    assert wait_for(used, "the server has seen the pod") == [MEMORY]


def test_a_pod_that_only_brings_its_node_and_one_that_only_brings_an_allocation_are_created(
    stage: Stage, name: str
) -> None:
    other = next(stage.names)
    plain = a_pod(name, nodeName=NAME)
    plain["spec"]["containers"][0]["resources"] = {}
    copied = a_pod(other)
    copied["metadata"]["annotations"] = {IDS: f"{A},NVIDIA,40960,100:"}
    try:
        assert stage.create(plain)
        assert stage.create(copied)
    finally:
        stage.remove(other)
