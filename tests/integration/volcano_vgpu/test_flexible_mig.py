"""MIG instances made for pods and removed after them, with an agent that is killed at any moment."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from hami_plugins.kube import paths
from hami_plugins.model.devices import Profile
from hami_plugins.model.units import DeviceId
from hami_plugins.vendors import nvidia
from hami_plugins.wire.fields import Json
from tests.integration.volcano_vgpu import machines
from tests.integration.volcano_vgpu.machines import NODE, Machine
from tests.unit.volcano_vgpu.test_flexible_mig import a_pod, place
from tests.waiting import wait_for
from volcano_vgpu.agent.cleanup import Cleaner
from volcano_vgpu.agent.mig_preparer import JournalFile, MigPreparer, take_back
from volcano_vgpu.core.flexible_mig import BlockedPromise, GpuInstance, Journal, MigPlace
from volcano_vgpu.discovery.file_partitions import FilePartitioner
from volcano_vgpu.discovery.partitions import PartitionError

A = "GPU-a"
CUTS = [
    {"name": "1g.5gb", "memory": 4864, "slices": 1, "size": 1, "starts": [0, 1, 2, 3, 4, 5, 6]},
    {"name": "3g.20gb", "memory": 19968, "slices": 3, "size": 4, "starts": [0, 4]},
]
FOREIGN = {"uuid": "MIG-foreign", "profile": "1g.5gb", "memory": 4864, "start": 6, "size": 1}
LARGE = place(0, "3g.20gb", 4)


class KilledError(BaseException):
    """The end of a process at a point."""


class Killing:
    """A partitioner that ends the process before or after a call; ``at`` is such as ``before create``."""

    def __init__(self, inner: FilePartitioner, at: str) -> None:
        self.inner = inner
        self.at = at

    def possible(self) -> Mapping[DeviceId, tuple[Profile, ...]]:
        return self.inner.possible()

    def existing(self) -> tuple[GpuInstance, ...]:
        return self.inner.existing()

    def create(self, where: MigPlace) -> None:
        self._around("create", self.inner.create, where)

    def destroy(self, where: MigPlace) -> None:
        self._around("destroy", self.inner.destroy, where)

    def _around(self, name: str, call: Callable[[MigPlace], None], where: MigPlace) -> None:
        if self.at == f"before {name}":
            raise KilledError
        if self.at == f"refused {name}":
            raise PartitionError(f"{name}: Insufficient Resources")
        if self.at == f"pretended {name}":
            return
        call(where)
        if self.at == f"after {name}":
            raise KilledError


class Node:
    """A node with one card in mode MIG, which has a foreign instance."""

    def __init__(self, root: Path) -> None:
        self.cards = root / "cards.yaml"
        self.journal = root / "hook" / "mig-instances.json"
        self.listed: list[Json] | None = []
        self.in_use: set[tuple[DeviceId, str, int]] = set()
        self.blocked: list[BlockedPromise] = []
        self.changes = 0
        card = {"uuid": A, "memory": 40960, "mig": [FOREIGN], "migProfiles": CUTS}
        self.cards.write_text(yaml.safe_dump({"cards": [card]}))

    def pods(self) -> Iterable[Json] | None:
        return self.listed

    def handed(self) -> Collection[tuple[DeviceId, str, int]]:
        return self.in_use

    def agent(self, at: str = "") -> MigPreparer:
        """A new process, which has read what is on the disk."""
        file = JournalFile(self.journal)
        file.read()
        return MigPreparer(
            Killing(FilePartitioner(self.cards), at),
            file,
            self,
            node="n1",
            spec=nvidia.SPEC,
            on_change=self._changed,
            on_blocked=self.blocked.extend,
        )

    def _changed(self) -> None:
        self.changes += 1

    @property
    def instances(self) -> dict[MigPlace, str]:
        return {each.place: each.uuid for each in FilePartitioner(self.cards).existing()}

    def run_processes(self, number: int) -> None:
        """Work on every instance that is not the foreign one."""
        document = yaml.safe_load(self.cards.read_text())
        for each in document["cards"][0]["mig"]:
            each["processes"] = 0 if each["uuid"] == FOREIGN["uuid"] else number
        self.cards.write_text(yaml.safe_dump(document))


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


@pytest.fixture(name="machine")
def a_machine() -> Iterator[Machine]:
    """A whole node, under a path that is short enough for sockets."""
    root = Path(tempfile.mkdtemp(prefix="vg"))
    try:
        with machines.machine(root) as found:
            yield found
    finally:
        shutil.rmtree(root)


FOREIGN_PLACE = place(6)


def test_an_instance_is_made_for_a_pod_and_removed_when_no_pod_has_it(node: Node) -> None:
    agent = node.agent()
    node.listed = [a_pod("p", place(0))]
    agent.prepare()
    assert set(node.instances) == {FOREIGN_PLACE, place(0)}
    agent.prepare()
    assert node.changes == 1
    node.listed = []
    agent.prepare()
    assert set(node.instances) == {FOREIGN_PLACE}
    assert dict(agent.ours) == {}
    assert json.loads(node.journal.read_text()) == {"version": 1, "instances": []}


def test_several_pods_get_theirs_and_room_is_made_for_a_larger_one(node: Node) -> None:
    agent = node.agent()
    node.listed = [a_pod("p", place(0), place(1)), a_pod("q", place(2))]
    agent.prepare()
    assert set(node.instances) == {FOREIGN_PLACE, place(0), place(1), place(2)}
    node.listed = [a_pod("r", LARGE)]
    agent.prepare()
    assert set(node.instances) == {FOREIGN_PLACE, LARGE}


@pytest.mark.parametrize("at", ["before create", "after create"])
@pytest.mark.parametrize("still_wanted", [True, False])
def test_an_agent_killed_while_it_makes_one_leaves_no_orphan(node: Node, at: str, *, still_wanted: bool) -> None:
    node.listed = [a_pod("p", place(0))]
    with pytest.raises(KilledError):
        node.agent(at).prepare()
    assert (place(0) in node.instances) == (at == "after create")
    if not still_wanted:
        node.listed = []
    after = node.agent()
    after.prepare()
    assert set(node.instances) == {FOREIGN_PLACE} | ({place(0)} if still_wanted else set())
    assert set(after.ours) == ({place(0)} if still_wanted else set())
    node.listed = []
    node.agent().prepare()
    assert node.instances == {FOREIGN_PLACE: "MIG-foreign"}


@pytest.mark.parametrize("at", ["before destroy", "after destroy"])
@pytest.mark.parametrize("wanted_again", [True, False])
def test_an_agent_killed_while_it_removes_one_is_followed_by_one_that_ends_it(
    node: Node, at: str, *, wanted_again: bool
) -> None:
    node.listed = [a_pod("p", place(0))]
    node.agent().prepare()
    node.listed = []
    with pytest.raises(KilledError):
        node.agent(at).prepare()
    node.listed = [a_pod("q", place(0))] if wanted_again else []
    after = node.agent()
    after.prepare()
    assert set(node.instances) == {FOREIGN_PLACE} | ({place(0)} if wanted_again else set())
    assert set(after.ours) == set(node.instances) - {FOREIGN_PLACE}


def test_a_kill_while_the_journal_is_written_leaves_the_one_before(node: Node) -> None:
    node.listed = [a_pod("p", place(0))]
    node.agent().prepare()
    (node.journal.parent / ".mig-instances.json.new").write_text("{half")
    node.listed = []
    node.agent().prepare()
    assert set(node.instances) == {FOREIGN_PLACE}


def test_the_instance_of_somebody_else_is_never_removed(node: Node) -> None:
    over = place(4, "3g.20gb", 4)
    node.listed = [a_pod("p", over)]
    agent = node.agent()
    agent.prepare()
    assert node.instances == {FOREIGN_PLACE: "MIG-foreign"}
    (told,) = node.blocked
    assert (told.pods, told.why) == (("ns/p",), "1g.5gb at 6 is in the way, and is not the agent's")
    agent.prepare()
    assert len(node.blocked) == 1
    node.listed = [a_pod("q", FOREIGN_PLACE)]
    agent.prepare()
    node.listed = []
    agent.prepare()
    assert node.instances == {FOREIGN_PLACE: "MIG-foreign"}


def test_an_instance_with_work_on_it_stays_until_it_is_idle(node: Node) -> None:
    agent = node.agent()
    node.listed = [a_pod("p", place(0))]
    agent.prepare()
    node.run_processes(1)
    node.listed = []
    agent.prepare()
    assert place(0) in node.instances
    node.run_processes(0)
    node.in_use = {(DeviceId(A), "1g.5gb", 0)}
    agent.prepare()
    assert place(0) in node.instances
    node.in_use = set()
    agent.prepare()
    assert place(0) not in node.instances


def test_an_instance_that_the_driver_refuses_is_told_and_tried_again_and_keeps_no_other(node: Node) -> None:
    node.listed = [a_pod("p", place(0))]
    node.agent("refused create").prepare()
    (told,) = node.blocked
    assert (told.place, told.why) == (place(0), "create: Insufficient Resources")
    assert json.loads(node.journal.read_text())["instances"] == []
    node.listed = [a_pod("p", place(0)), a_pod("q", place(1))]
    node.agent().prepare()
    assert set(node.instances) == {FOREIGN_PLACE, place(0), place(1)}


def test_an_instance_that_cannot_be_removed_stays_ours(node: Node) -> None:
    node.listed = [a_pod("p", place(0)), a_pod("q", place(1))]
    node.agent().prepare()
    node.listed = []
    node.agent("refused destroy").prepare()
    assert {place(0), place(1)} <= set(node.instances)
    node.agent().prepare()
    assert set(node.instances) == {FOREIGN_PLACE}


@pytest.mark.parametrize("at", ["pretended create", "pretended destroy"])
def test_a_driver_that_says_yes_and_does_nothing_is_asked_once(node: Node, at: str) -> None:
    node.listed = [a_pod("p", place(0))]
    node.agent("pretended create" if at == "pretended create" else "").prepare()
    assert [each.why for each in node.blocked] == (["the driver did not create it"] if "create" in at else [])
    node.listed = []
    node.agent(at).prepare()
    assert (place(0) in node.instances) == ("destroy" in at)


def test_nothing_happens_while_the_pods_are_not_known(node: Node) -> None:
    node.listed = [a_pod("p", place(0))]
    node.agent().prepare()
    node.listed = None
    node.agent().prepare()
    assert place(0) in node.instances


def test_after_a_reboot_what_is_promised_is_made_again(node: Node) -> None:
    node.listed = [a_pod("p", place(0))]
    node.agent().prepare()
    document: Any = yaml.safe_load(node.cards.read_text())
    document["cards"][0]["mig"] = []
    node.cards.write_text(yaml.safe_dump(document))
    node.agent().prepare()
    assert set(node.instances) == {place(0)}


def test_a_journal_that_cannot_be_read_is_put_aside_and_nothing_in_it_is_removed(node: Node) -> None:
    node.listed = [a_pod("p", place(0))]
    node.agent().prepare()
    node.journal.write_text("{")
    node.listed = []
    agent = node.agent()
    agent.prepare()
    assert place(0) in node.instances
    assert node.journal.with_suffix(".broken").read_text() == "{"


def test_cards_that_cannot_be_looked_at_are_tried_again(node: Node) -> None:
    node.cards.write_text("cards: [")
    agent = node.agent()
    with pytest.raises(PartitionError, match="cards file"):
        agent.prepare()
    ours: Journal = agent.ours
    assert dict(ours) == {}


FLEXIBLE = "{dialect: hami, mode: mig, flexibleMig: true}"


def bound(name: str, *places: MigPlace) -> dict[str, Any]:
    body = a_pod(name, *places, node=NODE)
    body["metadata"] = {"name": name, "namespace": "default", "annotations": body["metadata"]["annotations"]}
    body["spec"]["schedulerName"] = "hami-scheduler"
    body["spec"]["containers"][0]["image"] = "x"
    del body["status"]
    return body


def listed(machine: Machine) -> set[MigPlace]:
    return {each.place for each in FilePartitioner(machine.cards).existing()}


def registered(machine: Machine) -> dict[str, list[int]]:
    (card,) = json.loads(machine.node()["metadata"]["annotations"]["hami.io/node-nvidia-register"])
    return {each["name"]: [where["start"] for where in each["placements"]] for each in card["migProfiles"]}


def test_a_container_starts_once_its_instance_is_made_and_the_instance_goes_with_it(machine: Machine) -> None:
    machine.write_cards({"uuid": A, "memory": 40960, "mig": [FOREIGN], "migProfiles": CUTS})
    with machine.agent(FLEXIBLE) as agent:
        machine.wait_ready(agent, 10, "nvidia.com/gpu")
        assert registered(machine) == {"1g.5gb": [0, 1, 2, 3, 4, 5, 6], "3g.20gb": [0]}
        uid = machine.create(bound("one", place(0)))
        env = machine.started(uid)
        assert (
            env["NVIDIA_VISIBLE_DEVICES"]
            == {each.place: each.uuid for each in FilePartitioner(machine.cards).existing()}[place(0)]
        )
        written = agent.publisher.written
        machine.api.delete(paths.pod("default", "one"))
        wait_for(lambda: listed(machine) == {FOREIGN_PLACE}, "the instance is removed after its pod")
        assert agent.publisher.written == written
        assert registered(machine) == {"1g.5gb": [0, 1, 2, 3, 4, 5, 6], "3g.20gb": [0]}


def test_a_pod_whose_instance_cannot_be_made_has_an_event_with_the_reason(machine: Machine) -> None:
    machine.write_cards({"uuid": A, "memory": 40960, "mig": [FOREIGN], "migProfiles": CUTS})
    with machine.agent(FLEXIBLE) as agent:
        machine.wait_ready(agent, 10, "nvidia.com/gpu")
        machine.create(bound("one", place(4, "3g.20gb", 4)))

        def told() -> list[str]:
            found = machine.api.get("/api/v1/namespaces/default/events")["items"]
            return [each["message"] for each in found if each["reason"] == "MIGInstanceNotMade"]

        (message,) = wait_for(told, "an event of the pod")
        assert "1g.5gb at 6 is in the way, and is not the agent's" in message
        assert listed(machine) == {FOREIGN_PLACE}


@pytest.mark.parametrize("text", ["{dialect: hami, mode: mig}", "{mode: mig, flexibleMig: true}"])
def test_nothing_is_made_where_that_is_not_set_or_volcano_chooses(machine: Machine, text: str) -> None:
    machine.write_cards({"uuid": A, "memory": 40960, "mig": [FOREIGN], "migProfiles": CUTS})
    with machine.agent(text):
        machine.create(bound("one", place(0)))
        wait_for(lambda: machine.waits("one") or machine.pod("one").get("status", {}).get("phase"), "it is looked at")
        assert listed(machine) == {FOREIGN_PLACE}


def taken_back(node: Node, at: str = "") -> str:
    journal = JournalFile(node.journal)
    partitioner = Killing(FilePartitioner(node.cards), at)
    return take_back(journal, partitioner, node.listed or (), "n1", nvidia.SPEC)


def test_an_agent_that_ends_for_good_takes_its_idle_instances_back(node: Node) -> None:
    node.listed = [a_pod("p", place(0)), a_pod("q", place(1))]
    node.agent().prepare()
    node.listed = [a_pod("p", place(0)), a_pod("new", place(2))]
    assert taken_back(node) == (
        "MIG instances 1g.5gb at 0 of GPU-a: a pod or a process uses them; end it, and run this again"
    )
    assert set(node.instances) == {FOREIGN_PLACE, place(0)}
    node.listed = []
    assert taken_back(node) == ""
    assert set(node.instances) == {FOREIGN_PLACE}
    assert not node.journal.exists()


def test_what_the_driver_does_not_remove_is_named_and_stays_ours(node: Node) -> None:
    node.listed = [a_pod("p", place(0))]
    node.agent().prepare()
    node.listed = []
    assert "destroy: Insufficient Resources" in taken_back(node, "refused destroy")
    assert "a pod or a process uses them" in taken_back(node, "pretended destroy")
    assert taken_back(node) == ""
    assert set(node.instances) == {FOREIGN_PLACE}


@pytest.mark.parametrize("flexible", [True, False])
def test_a_cleaned_node_has_no_instance_and_no_journal_of_the_agent(machine: Machine, *, flexible: bool) -> None:
    machine.write_cards({"uuid": A, "memory": 40960, "mig": [FOREIGN], "migProfiles": CUTS})
    with machine.agent(FLEXIBLE) as agent:
        machine.wait_ready(agent, 10, "nvidia.com/gpu")
        uid = machine.create(bound("one", place(0)))
        machine.started(uid)
    machine.api.delete(paths.pod("default", "one"))
    wait_for(lambda: not machine.find_pod("one"), "the pod is gone")
    settings = machine.settings(FLEXIBLE)
    cleaner = Cleaner(settings, machine.api, FilePartitioner(machine.cards) if flexible else None)
    journal = str(machine.root / "hook" / "mig-instances.json")
    assert journal in cleaner.left().removed
    remains = cleaner.clean()
    assert (listed(machine) == {FOREIGN_PLACE}) is flexible
    assert any(journal in each for each in remains.removed) is flexible
    assert any("set flexibleMig, and run this again" in each for each in remains.kept) is not flexible
