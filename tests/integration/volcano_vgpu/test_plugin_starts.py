"""From the kubelet's calls to what the container has: the right slice, or a text that says why not."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hami_plugins.model.units import PodUid
from hami_plugins.node.kubelet.pod_resources import ContainerDevices
from tests.integration.volcano_vgpu.kubelets import Node
from tests.unit.volcano_vgpu.allocated_pods import COUNT, IDS, card, container, offer, pod
from volcano_vgpu.core.refusals import ContainerRefusal, RefusalCode

ONE = "GPU-a,NVIDIA,2000,30:"


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def started(node: Node, raw: Any, *names: str) -> list[str]:
    """Bind, admit and start a pod's containers; what held each back."""
    node.create(raw)
    assert node.kubelet.admit(raw) == ""
    return [node.kubelet.start(raw["metadata"]["uid"], name) for name in names or ("main",)]


def test_a_container_has_just_what_was_allocated(node: Node) -> None:
    assert started(node, pod(ids="GPU-b,NVIDIA,2000,30:")) == [""]
    env = node.given("uid-p", "main")
    assert env is not None
    assert env["NVIDIA_VISIBLE_DEVICES"] == "GPU-b"
    assert env["CUDA_DEVICE_MEMORY_LIMIT_0"] == "2000m"
    assert env["CUDA_DEVICE_SM_LIMIT"] == "30"


def test_the_kubelet_is_steered_to_slots_of_the_allocated_card(node: Node) -> None:
    raw = pod(container("main", count=2), ids="GPU-b,NVIDIA,1,0:GPU-a,NVIDIA,1,0:")
    started(node, raw)
    ids = node.kubelet.entries["uid-p", "main"].device_ids
    assert {node.slots.card_of(slot) for slot in ids} == {"GPU-a", "GPU-b"}
    started(node, pod(name="q", ids="GPU-b,NVIDIA,1,0:"))
    (slot,) = node.kubelet.entries["uid-q", "main"].device_ids
    assert node.slots.card_of(slot) == "GPU-b"


def test_pods_of_one_shape_never_have_each_others_slice(node: Node) -> None:
    for at in range(16):
        card_of = "GPU-a" if at % 2 else "GPU-b"
        node.create(pod(name=f"p{at}", ids=f"{card_of},NVIDIA,{1000 + at},0:"))
    pods = list(node.pods.all())
    for raw in reversed(pods):
        node.kubelet.admit(raw)
    for at, raw in enumerate(pods):
        assert node.kubelet.start(raw["metadata"]["uid"], "main") == ""
        env = node.given(f"uid-p{at}", "main")
        assert env is not None
        assert env["CUDA_DEVICE_MEMORY_LIMIT_0"] == f"{1000 + at}m"


def test_all_containers_are_specified_before_the_first_one_starts(node: Node) -> None:
    raw = pod(
        container("one", count=1),
        container("two", count=1),
        init=[container("init", count=1)],
        ids=f"{ONE};GPU-b,NVIDIA,3000,0:",
    )
    assert started(node, raw, "init") == [""]
    found = {name: node.given("uid-p", name) for name in ("init", "one", "two")}
    assert all(found.values())
    assert found["init"]["NVIDIA_VISIBLE_DEVICES"] == "GPU-a"  # type: ignore[index]
    assert found["two"]["CUDA_DEVICE_MEMORY_LIMIT_0"] == "3000m"  # type: ignore[index]


def test_a_container_that_starts_again_has_what_it_had(node: Node) -> None:
    raw = pod()
    started(node, raw)
    before = node.specified()
    node.restart_agent()
    assert node.kubelet.start("uid-p", "main") == ""
    assert node.specified() == before


def test_other_settings_change_nothing_for_a_container_that_was_served(node: Node) -> None:
    started(node, pod())
    before = node.specified()
    node.settings = replace(node.settings, log_level=4)
    node.restart_agent()
    assert node.kubelet.start("uid-p", "main") == ""
    assert node.specified() == before


def test_a_smaller_register_changes_nothing_for_a_container_that_was_served(node: Node) -> None:
    """Scaling of memory was taken back, or the unit of memory has grown."""
    started(node, pod(ids="GPU-a,NVIDIA,30000,30:"))
    before = node.specified()
    node.offer = offer(card("GPU-a", memory=20000), card("GPU-b", memory=20000))
    node.restart_agent()
    assert node.kubelet.start("uid-p", "main") == ""
    assert node.specified() == before
    assert "GPU-b, which has 20000" in started(node, pod(name="q", ids="GPU-b,NVIDIA,30000,30:"))[0]


def test_a_lost_specification_is_written_again(node: Node) -> None:
    started(node, pod())
    before = node.specified()
    for path in node.cdi.iterdir():
        path.unlink()
    assert node.kubelet.start("uid-p", "main") == ""
    assert node.specified() == before


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        '{"devices": 1}',
        '{"devices": [{}]}',
        '{"devices": [{"name": "x", "annotations": {"volcano.sh/container": "main", "volcano.sh/slots": 5}}]}',
    ],
)
def test_a_specification_that_was_cut_short_is_written_again(node: Node, text: str) -> None:
    started(node, pod())
    before = node.specified()
    (path,) = node.cdi.iterdir()
    path.write_text(text)
    node.restart_agent()
    assert node.kubelet.start("uid-p", "main") == ""
    assert node.specified() == before


def test_an_allocation_that_changed_is_not_handed_over_in_place_of_the_first(node: Node) -> None:
    started(node, pod())
    before = node.specified()
    node.pods.put(pod(ids="GPU-b,NVIDIA,2000,30:"))
    assert "a container keeps its cards" in node.kubelet.start("uid-p", "main")
    assert node.specified() == before


def test_the_agent_may_be_lost_between_the_calls(node: Node) -> None:
    raw = node.create(pod())
    node.kubelet.admit(raw)
    node.restart_agent()
    assert node.kubelet.start("uid-p", "main") == ""
    assert node.given("uid-p", "main")


def test_the_kubelet_may_be_lost_in_the_last_allocate(node: Node) -> None:
    raw = pod(container("one", count=1), container("two", count=1), ids=f"{ONE};GPU-b,NVIDIA,3000,0:")
    node.create(raw)
    node.kubelet.admit(raw, killed_in_last=True)
    assert ("uid-p", "two") not in node.kubelet.entries
    assert node.kubelet.admit(raw) == ""
    assert node.kubelet.start("uid-p", "one") == ""
    env = node.given("uid-p", "two")
    assert env is not None
    assert env["NVIDIA_VISIBLE_DEVICES"] == "GPU-b"


def test_a_start_before_the_record_is_written_is_asked_again(node: Node) -> None:
    raw = node.create(pod())
    node.kubelet.admit(raw)
    text = node.kubelet.file.read_bytes()
    node.kubelet.file.unlink()
    assert "no container with exactly" in node.kubelet.start("uid-p", "main")
    node.kubelet.file.write_bytes(text)
    assert node.kubelet.start("uid-p", "main") == ""


@pytest.mark.parametrize("text", [b"", b"not JSON", b"[]", b'{"Data": {"PodDeviceEntries": 1}}'])
def test_a_record_that_cannot_be_read_serves_nobody(node: Node, text: bytes) -> None:
    raw = node.create(pod())
    node.kubelet.admit(raw)
    node.kubelet.file.write_bytes(text)
    assert "checkpoint cannot be read" in node.kubelet.start("uid-p", "main")
    assert node.specified() == {}


def test_an_id_given_twice_stays_with_the_first_and_the_second_waits(node: Node) -> None:
    first, second = pod(name="a"), pod(name="b")
    started(node, first)
    ids = node.kubelet.entries["uid-a", "main"].device_ids
    node.create(second)
    node.kubelet.handed_out_anyway = set(ids)
    node.kubelet.offered = tuple(ids)
    node.kubelet.admit(second)
    assert node.kubelet.entries["uid-b", "main"].device_ids == ids
    node.kubelet.start("uid-b", "main")
    assert node.given("uid-b", "main") is None
    assert [(uid, refusal.code) for uid, _, refusal in node.told.refusals] == [("uid-b", RefusalCode.DOUBLED)]
    assert node.kubelet.start("uid-a", "main") == ""
    assert node.given("uid-a", "main")
    node.kubelet.forget("uid-a")
    node.pods.delete("uid-a")
    assert node.kubelet.start("uid-b", "main") == ""
    assert node.given("uid-b", "main")


def test_an_id_that_somebody_holds_is_not_offered_again(node: Node) -> None:
    started(node, pod(name="a"))
    ids = node.kubelet.entries["uid-a", "main"].device_ids
    node.kubelet.handed_out_anyway = set(ids)
    started(node, pod(name="b"))
    assert not node.kubelet.entries["uid-b", "main"].device_ids & ids


def test_a_pod_that_the_watch_has_not_shown_yet_is_read(node: Node) -> None:
    raw = node.create(pod())
    node.pods.watched.clear()
    node.kubelet.admit(raw)
    assert node.kubelet.start("uid-p", "main") == ""
    assert node.pods.reads == 2  # to be steered to its card, and to be served


def test_an_allocation_that_the_watch_has_not_shown_yet_is_read(node: Node) -> None:
    raw = node.create(pod())
    early = json.loads(json.dumps(raw))
    del early["metadata"]["annotations"][IDS]
    early["metadata"]["resourceVersion"] = "0"
    node.pods.watched["uid-p"] = early
    node.kubelet.admit(raw)
    assert node.kubelet.start("uid-p", "main") == ""


def test_with_the_api_server_away_a_known_pod_is_served_and_an_unknown_one_waits(node: Node) -> None:
    node.pods.away = True
    assert started(node, pod(name="known")) == [""]
    raw = node.create(pod(name="unknown"))
    node.kubelet.admit(raw)
    del node.pods.watched["uid-unknown"]
    assert "the API server does not answer" in node.kubelet.start("uid-unknown", "main")
    assert node.given("uid-unknown", "main") is None


def test_a_pod_that_was_deleted_meanwhile_is_not_served(node: Node) -> None:
    raw = node.create(pod())
    node.kubelet.admit(raw)
    node.pods.delete("uid-p")
    assert "no pod with UID uid-p" in node.kubelet.start("uid-p", "main")
    assert node.specified() == {}


def test_a_pod_made_again_under_the_same_name_has_its_own_slice(node: Node) -> None:
    started(node, pod())
    node.kubelet.forget("uid-p")
    node.pods.delete("uid-p")
    again = pod(ids="GPU-b,NVIDIA,500,0:", uid="uid-again")
    assert started(node, again) == [""]
    env = node.given("uid-again", "main")
    assert env is not None
    assert env["CUDA_DEVICE_MEMORY_LIMIT_0"] == "500m"


def test_a_static_pod_is_told_that_nobody_can_allocate_it_anything(node: Node) -> None:
    mirror = pod(ids=None, uid="uid-mirror")
    mirror["metadata"]["annotations"] |= {
        "kubernetes.io/config.mirror": "uid-file",
        "kubernetes.io/config.hash": "uid-file",
    }
    node.create(mirror)
    on_the_node = pod(ids=None, uid="uid-file")
    node.kubelet.admit(on_the_node)
    assert "a static pod has no allocation" in node.kubelet.start("uid-file", "main")


def test_a_pod_without_an_allocation_is_read_once_more_and_refused_with_its_reason(node: Node) -> None:
    assert "Volcano bound it without allocating a card" in started(node, pod(ids=None))[0]
    assert [refusal.code for _, _, refusal in node.told.refusals] == [RefusalCode.NO_ALLOCATION]
    assert node.pods.reads == 1


def test_a_sidecar_is_refused_and_its_pod_told_why(node: Node) -> None:
    raw = pod(init=[container("side", count=1) | {"restartPolicy": "Always"}])
    assert "a sidecar" in started(node, raw, "side")[0]
    assert node.given("uid-p", "side") is None


@pytest.mark.parametrize("always", [{}, {"restartPolicy": "Always"}], ids=["init container", "sidecar"])
def test_who_is_no_application_has_what_is_listed_for_it_by_name(node: Node, always: dict[str, str]) -> None:
    raw = pod(init=[container("first", count=1, memory=9000) | always])
    raw["metadata"]["annotations"]["hami-plugins.io/vgpu-more-ids"] = "first=GPU-b,NVIDIA,9000,0:"
    assert started(node, raw, "first", "main") == ["", ""]
    limits = []
    for name in ("first", "main"):
        env = node.given("uid-p", name)
        assert env is not None
        limits.append((env["NVIDIA_VISIBLE_DEVICES"], env["CUDA_DEVICE_MEMORY_LIMIT_0"]))
    assert limits == [("GPU-b", "9000m"), ("GPU-a", "2000m")]


def test_a_refused_init_container_hides_behind_nobody(node: Node) -> None:
    raw = pod(init=[container("init", count=1, memory=2001)])
    assert "asks for more than the slice of container main" in started(node, raw, "init")[0]
    assert node.given("uid-p", "init") is None


def test_cards_that_are_promised_twice_go_to_the_first(node: Node) -> None:
    assert started(node, pod(name="a", ids="GPU-a,NVIDIA,40000,0:")) == [""]
    assert "team/a" in started(node, pod(name="b", ids="GPU-a,NVIDIA,961,0:"))[0]
    assert node.given("uid-b", "main") is None
    node.pods.delete("uid-a")
    node.kubelet.forget("uid-a")
    assert node.kubelet.start("uid-b", "main") == ""


def test_pods_that_start_at_the_same_moment_count_each_other(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = (pod(name=name, ids="GPU-a,NVIDIA,30000,0:") for name in "pq")
    for raw in (first, second):
        node.create(raw)
        assert node.kubelet.admit(raw) == ""
    make, meanwhile = node.directories.make, list[str]()

    def making(names: Collection[str]) -> ContainerRefusal | None:
        """The second pod starts when the first is decided on and its specification is not written yet."""
        monkeypatch.undo()
        meanwhile.append(node.kubelet.start("uid-q", "main"))
        return make(names)

    monkeypatch.setattr(node.directories, "make", making)
    assert node.kubelet.start("uid-p", "main") == ""
    assert "team/p" in meanwhile[0]
    assert node.given("uid-q", "main") is None


def test_ids_that_pod_resources_lists_for_another_pod_are_not_served_after_a_restart(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = node.create(pod(ids=ONE))
    assert node.kubelet.admit(raw) == ""
    ids = node.kubelet.entries["uid-p", "main"].device_ids
    listed = [
        (ContainerDevices("team", "q", "main", COUNT, ids), "pod-resources list for team/q"),
        (ContainerDevices("team", "p", "main", COUNT, ids), ""),
    ]
    node.restart_agent()
    for row, reason in listed:
        monkeypatch.setattr(node.kubelet, "listed", lambda row=row: (row,))
        found = node.kubelet.start("uid-p", "main")
        assert reason in found
        assert bool(found) == bool(reason)


def test_a_card_that_falls_ill_holds_back_those_who_start_on_it(node: Node) -> None:
    started(node, pod())
    node.offer = offer(card("GPU-a", problems=("XID 79",)), card("GPU-b"))
    assert "XID 79" in node.kubelet.start("uid-p", "main")
    node.offer = offer()
    assert node.kubelet.start("uid-p", "main") == ""


def test_pods_of_the_existing_plugin_are_left_as_they_are(node: Node) -> None:
    raw = node.create(pod())
    node.kubelet.offered = ("GPU-a-0",)
    node.kubelet.admit(raw)
    entry = node.kubelet.entries["uid-p", "main"]
    entry.response.Clear()
    entry.response.envs["NVIDIA_VISIBLE_DEVICES"] = "GPU-a"
    node.kubelet._record("uid-p", "main", entry.device_ids, entry.response)  # noqa: SLF001
    assert node.kubelet.start("uid-p", "main") == ""
    assert node.specified() == {}
    node.kubelet.offered = tuple(node.offered)
    assert "team/p" in started(node, pod(name="b", ids="GPU-a,NVIDIA,40000,0:"))[0]


def test_directories_are_made_for_any_user_before_the_specification(node: Node) -> None:
    before = os.umask(0o077)
    try:
        started(node, pod())
    finally:
        os.umask(before)
    made = node.directory / "hook" / "vgpu" / "containers" / "uid-p_main"
    assert stat.S_IMODE(made.stat().st_mode) == 0o777
    assert stat.S_IMODE((node.directory / "vgpulock").stat().st_mode) == 0o777


def test_a_link_in_place_of_a_directory_is_refused(node: Node) -> None:
    (node.directory / "elsewhere").mkdir(mode=0o700)
    (node.directory / "vgpulock").symlink_to(node.directory / "elsewhere")
    assert "vgpulock" in started(node, pod())[0]
    assert stat.S_IMODE((node.directory / "elsewhere").stat().st_mode) == 0o700


def test_a_directory_for_specifications_that_cannot_be_written_is_named(node: Node) -> None:
    node.cdi.rmdir()
    node.cdi.write_text("a file")
    text = started(node, pod())[0]
    assert str(node.cdi) in text
    node.cdi.unlink()
    node.cdi.mkdir()
    assert node.kubelet.start("uid-p", "main") == ""


def test_remains_go_when_neither_the_kubelet_nor_the_api_server_knows_the_pod(node: Node) -> None:
    started(node, pod(name="a"))
    started(node, pod(name="b"))
    node.pods.delete("uid-a")
    node.leftovers.collect()
    assert node.leftovers.collect() == frozenset(), "the kubelet's record still has it"
    node.kubelet.forget("uid-a")
    started(node, pod(name="c", ids="GPU-b,NVIDIA,1,0:"))
    assert node.leftovers.collect() == frozenset(), "one look is not enough"
    assert node.leftovers.collect() == {"uid-a"}
    names = sorted(path.name for path in node.cdi.iterdir())
    assert names == ["volcano.sh-vgpu_uid-b.json", "volcano.sh-vgpu_uid-c.json"]
    assert node.directories.names() == ("uid-b_main", "uid-c_main")


def test_nothing_is_removed_while_the_record_cannot_be_read(node: Node) -> None:
    started(node, pod(name="a"))
    node.pods.delete("uid-a")
    node.kubelet.file.write_text("{")
    for _ in range(3):
        assert node.leftovers.collect() == frozenset()


def test_a_specification_that_cannot_be_read_hides_no_other(node: Node) -> None:
    started(node, pod(name="a"))
    node.cdi.joinpath("volcano.sh-vgpu_uid-b.json").mkdir()
    node.restart_agent()
    assert node.specifications.pods == {"uid-a"}
    assert "uid-b" in started(node, pod(name="b"))[0]


def test_answers_that_came_to_nothing_are_forgotten(node: Node) -> None:
    """A kubelet with as many slots left as are asked for asks for no preference."""
    node.kubelet.offered = tuple(node.offered[:1])
    book = node.plugin._book  # noqa: SLF001 - private by design
    for at in range(20):
        assert started(node, pod(name=f"p{at}")) == [""]
        node.kubelet.forget(f"uid-p{at}")
        node.pods.delete(f"uid-p{at}")
        node.specifications.forget(PodUid(f"uid-p{at}"))
        node.now += 60
    assert len(book.calls) == 1
