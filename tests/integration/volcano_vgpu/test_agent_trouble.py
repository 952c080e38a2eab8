"""The agent among others who write, break and restart things."""

from __future__ import annotations

import hashlib
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from hami_plugins.kube import paths
from hami_plugins.model.units import DeviceId
from hami_plugins.sandbox.apiserver import Delay, Fault, Refuse
from tests.integration.volcano_vgpu.machines import CARDS, NODE, NUMBER, Machine, container, pod
from tests.waiting import PATIENCE, wait_for
from volcano_vgpu.agent import config, serving
from volcano_vgpu.agent.app import Agent
from volcano_vgpu.commands.verification import verdict
from volcano_vgpu.core.slots import key_of

A, B = "GPU-aaaaaaaa-1", "GPU-bbbbbbbb-2"
REGISTER = "volcano.sh/node-vgpu-register"
HANDSHAKE = "volcano.sh/node-vgpu-handshake"


def notes(node: Machine) -> Mapping[str, str]:
    found: Mapping[str, str] = node.node()["metadata"]["annotations"]
    return found


def page(agent: Agent, path: str) -> tuple[int, str]:
    host, port = agent.address
    try:
        with urllib.request.urlopen(f"http://{host}:{port}{path}", timeout=PATIENCE) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def events(node: Machine, reason: str) -> list[Any]:
    return [each for each in node.api.get("/api/v1/namespaces/default/events")["items"] if each["reason"] == reason]


@pytest.mark.parametrize("text", [None, "", "nonsense", f"{A},10,40960:", "GPU-x,10,1,NVIDIA-T4,true,hami-core:"])
def test_a_register_that_somebody_broke_is_repaired(node: Machine, text: str | None) -> None:
    with node.agent() as agent:
        node.wait_ready(agent, 20)
        good = notes(node)[REGISTER]
        node.api.merge_patch(paths.node(NODE), {"metadata": {"annotations": {REGISTER: text}}})
        wait_for(lambda: notes(node).get(REGISTER) == good, "the register is repaired")


@pytest.mark.parametrize("text", ["Deleted_2026.01.01 00:00:00", "Requesting_2026.01.01 00:00:00", None])
def test_a_handshake_that_somebody_changed_is_put_back(node: Machine, text: str | None) -> None:
    with node.agent() as agent:
        node.wait_ready(agent, 20)
        node.api.merge_patch(paths.node(NODE), {"metadata": {"annotations": {HANDSHAKE: text}}})
        wait_for(lambda: notes(node).get(HANDSHAKE, "").startswith("Requesting_2099"), "the handshake is back")


@pytest.mark.parametrize("amount", [None, "1", "0"])
def test_sums_that_somebody_changed_are_put_back(node: Machine, amount: str | None) -> None:
    with node.agent() as agent:
        node.wait_ready(agent, 20)
        status = {"status": {"capacity": {"volcano.sh/vgpu-memory": amount}}}
        node.api.merge_patch(paths.node_status(NODE), status)
        wait_for(lambda: node.node()["status"]["capacity"].get("volcano.sh/vgpu-memory") == "81920", "it is back")


def test_a_restarted_kubelet_knows_the_agent_again(node: Machine) -> None:
    with node.agent() as agent:
        node.wait_ready(agent, 20)
        uid = node.create(pod("one", container(memory=2000), ids=f"{A},NVIDIA,2000,0:"))
        node.started(uid)
        node.kubelet.restart()
        wait_for(lambda: not agent.trouble and node.allocatable() == 20, "the slots are back")
        other = node.create(pod("two", container(memory=3000), ids=f"{A},NVIDIA,3000,0:"))
        assert node.started(other)["CUDA_DEVICE_MEMORY_LIMIT_0"] == "3000m"
        assert len(node.kubelet.containers(uid, "main")) == 1


def test_without_the_api_server_a_known_pod_is_served_and_nobody_is_guessed(node: Machine) -> None:
    with node.agent() as agent:
        node.wait_ready(agent, 20)
        uid = node.create(pod("one", container(memory=2000), ids=f"{A},NVIDIA,2000,0:"))
        node.started(uid)
        node.server.pause()
        try:
            node.kubelet.finish(uid, "main", exit_code=1)
            wait_for(lambda: len(node.kubelet.containers(uid, "main")) == 2, "it starts again from what is known")
        finally:
            node.server.resume()
        wait_for(lambda: not agent.trouble, "the agent is well again")


def test_another_plugin_on_the_node_is_named_and_waited_for(node: Machine) -> None:
    foreign = socket.socket(socket.AF_UNIX)
    path = node.kubelet.plugin_directory / "nvidia-vgpu-number.sock"
    foreign.bind(str(path))
    foreign.listen()
    try:
        agent = node.start_agent()
        try:
            wait_for(lambda: "nvidia-vgpu-number.sock" in agent.trouble, "the agent names the other plugin")
            status, text = page(agent, "/readyz")
            assert status == 503
            assert "nvidia-vgpu-number.sock" in text
            assert REGISTER not in (node.node()["metadata"].get("annotations") or {})
        finally:
            agent.stop()
    finally:
        foreign.close()


def test_a_node_without_the_daemon_of_mps_is_not_ready_and_says_so_once(
    node: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "MPS_ROOT", str(tmp_path))
    with node.agent("mode: mps") as agent:
        wait_for(
            lambda: "MPS's control daemon has no pipe and shm there" in agent.trouble, "the agent names the daemon"
        )
        wait_for(lambda: events(node, "MPSDaemonMissing"), "an event on the node")
        for name in ("pipe", "shm", "pipe/control"):
            (tmp_path / name).mkdir()
        node.wait_ready(agent, 20)
    (event,) = events(node, "MPSDaemonMissing")
    assert event["involvedObject"]["kind"] == "Node"


def test_a_card_whose_uuid_contains_anothers_is_passed_over(node: Machine) -> None:
    node.write_cards(CARDS[0], {**CARDS[1], "uuid": A + "0"})
    with node.agent() as agent:
        node.wait_ready(agent, 10)
        assert notes(node)[REGISTER].count(":") == 1


def test_sixteen_big_cards_are_no_trouble(node: Machine) -> None:
    node.write_cards(*({"uuid": f"GPU-{at:08x}-x", "model": "B300", "memory": "192Gi"} for at in range(16)))
    with node.agent("deviceSplitCount: 100") as agent:
        node.wait_ready(agent, 1600)
        assert node.node()["status"]["capacity"]["volcano.sh/vgpu-memory"] == str(16 * 192 * 1024)


@pytest.mark.parametrize(
    ("ids", "word"),
    [
        pytest.param("rubbish,", "volcano.sh/vgpu-ids-new", id="wrong grammar"),
        pytest.param("GPU-cccccccc-3,NVIDIA,1000,0:", "no such card", id="unknown card"),
        pytest.param(f"{A},NVIDIA,50000,0:", "40960", id="more than the card"),
        pytest.param(f"{A},NVIDIA,1000,0:;{B},NVIDIA,1000,0:", "2 containers", id="more segments than containers"),
        pytest.param(f"{A},NVIDIA,1000,0:{B},NVIDIA,1000,0:", "2", id="more cards than slots"),
    ],
)
def test_an_allocation_that_cannot_be_is_refused_with_the_reason(node: Machine, ids: str, word: str) -> None:
    with node.agent() as agent:
        node.wait_ready(agent, 20)
        uid = node.create(pod("bad", container(), ids=ids))
        healthy = node.create(pod("good", container(memory=500), ids=f"{A},NVIDIA,500,0:"))
        text = wait_for(lambda: node.waits("bad"), "the container waits")
        assert word in text
        assert not node.kubelet.containers(uid, "main")
        assert node.started(healthy)["CUDA_DEVICE_MEMORY_LIMIT_0"] == "500m"


def test_an_allocation_for_another_node_is_refused(node: Machine) -> None:
    with node.agent() as agent:
        node.wait_ready(agent, 20)
        body = pod("stale", container(), ids=f"{A},NVIDIA,1000,0:")
        body["metadata"]["annotations"]["volcano.sh/vgpu-node"] = "node-2"
        node.create(body)
        assert "node-2" in wait_for(lambda: node.waits("stale"), "the container waits")


def test_a_card_promised_twice_goes_to_the_first(node: Machine) -> None:
    with node.agent() as agent:
        node.wait_ready(agent, 20)
        first = node.create(pod("first", container(memory=30000), ids=f"{A},NVIDIA,30000,0:"))
        node.started(first)
        node.create(pod("second", container(memory=20000), ids=f"{A},NVIDIA,20000,0:"))
        text = wait_for(lambda: node.waits("second"), "the second waits")
        assert "default/first" in text
        node.api.delete(paths.pod("default", "first"))
        second = str(node.pod("second")["metadata"]["uid"])
        assert node.started(second)["CUDA_DEVICE_MEMORY_LIMIT_0"] == "20000m"


def test_a_pod_created_anew_with_the_same_name_has_its_own_slice(node: Machine) -> None:
    with node.agent() as agent:
        node.wait_ready(agent, 20)
        for memory in (1000, 2000):
            uid = node.create(pod("again", container(memory=memory), ids=f"{A},NVIDIA,{memory},0:"))
            assert node.started(uid)["CUDA_DEVICE_MEMORY_LIMIT_0"] == f"{memory}m"
            node.api.delete(paths.pod("default", "again"))
            wait_for(lambda: not node.find_pod("again"), "it is gone")


def test_what_a_pod_had_is_removed_when_it_is_gone(node: Machine) -> None:
    with node.agent() as agent:
        node.wait_ready(agent, 20)
        uid = node.create(pod("one", container(memory=2000), ids=f"{A},NVIDIA,2000,0:"))
        node.started(uid)
        folder = node.root / "hook" / "vgpu" / "containers" / f"{uid}_main"
        assert folder.is_dir()
        node.api.delete(paths.pod("default", "one"))
        wait_for(lambda: not node.find_pod("one"), "the pod is gone")
        # The kubelet writes its record only when it allocates again.
        other = node.create(pod("two", container(memory=2000), ids=f"{A},NVIDIA,2000,0:"))
        node.started(other)
        wait_for(lambda: not folder.exists(), "the directory is gone")
        assert (node.root / "hook" / "vgpu" / "containers" / f"{other}_main").is_dir()


def test_init_containers_use_the_slice_of_the_container_after_them(node: Machine) -> None:
    with node.agent() as agent:
        node.wait_ready(agent, 20)
        init: dict[str, Any] = container("prepare", memory=1000)
        body = pod("phases", container(memory=2000), ids=f"{A},NVIDIA,2000,0:", initContainers=[init])
        uid = node.create(body)
        assert node.started(uid, "prepare")["NVIDIA_VISIBLE_DEVICES"] == A
        node.kubelet.finish(uid, "prepare")
        assert node.started(uid)["CUDA_DEVICE_MEMORY_LIMIT_0"] == "2000m"


def test_an_init_container_that_asks_for_more_says_why_it_waits(node: Machine) -> None:
    with node.agent() as agent:
        node.wait_ready(agent, 20)
        init = container("prepare", memory=9000)
        node.create(pod("phases", container(memory=2000), ids=f"{A},NVIDIA,2000,0:", initContainers=[init]))
        text = wait_for(lambda: node.waits("phases", "prepare"), "the init container waits")
        assert "init container" in text
        assert "2000" in text


def test_probes_and_metrics_are_served(node: Machine) -> None:
    with node.agent() as agent:
        node.wait_ready(agent, 20)
        assert page(agent, "/healthz")[0] == 200
        assert page(agent, "/readyz")[0] == 200
        uid = node.create(pod("one", container(memory=2000), ids=f"{A},NVIDIA,2000,0:"))
        node.started(uid)
        text = page(agent, "/metrics")[1]
        assert f'volcano_vgpu_card_memory_allocated_bytes{{uuid="{A}"}} 2.097152e+09' in text
        assert 'container="main"' in text


def test_the_kubelets_bookkeeping_names_the_allocated_cards(node: Machine) -> None:
    with node.agent() as agent:
        node.wait_ready(agent, 20)
        for name, card in (("one", A), ("two", B), ("three", A)):
            uid = node.create(pod(name, container(memory=100), ids=f"{card},NVIDIA,100,0:"))
            node.started(uid)
            (slot,) = node.slots_of(uid)
            assert slot.startswith(key_of(DeviceId(card)))


def test_nothing_is_offered_while_the_api_server_refuses_the_register(node: Machine) -> None:
    node.server.faults.add(Fault(action=Refuse(403), verb="patch", resource="nodes", agent="agent", times=None))
    agent = node.start_agent()
    try:
        wait_for(lambda: "valid register" in agent.trouble, "the agent says what is missing")
        assert node.allocatable() == 0
        node.server.faults.clear()
        wait_for(lambda: node.allocatable() == 20, "it goes on by itself")
    finally:
        agent.stop()


def test_an_unreadable_cards_file_keeps_what_was_known(node: Machine) -> None:
    with node.agent() as agent:
        node.wait_ready(agent, 20)
        Path(node.cards).write_text("cards: [")
        uid = node.create(pod("one", container(memory=2000), ids=f"{A},NVIDIA,2000,0:"))
        node.started(uid)
        assert node.allocatable() == 20


def test_a_pod_that_asks_for_two_cards_gets_both_in_order(node: Machine) -> None:
    with node.agent() as agent:
        node.wait_ready(agent, 20)
        ids = f"{B},NVIDIA,1000,10:{A},NVIDIA,1000,10:"
        uid = node.create(pod("pair", container(number=2, memory=1000, cores=10), ids=ids))
        env = node.started(uid)
        assert env["NVIDIA_VISIBLE_DEVICES"] == f"{B},{A}"
        assert (env["CUDA_DEVICE_MEMORY_LIMIT_0"], env["CUDA_DEVICE_MEMORY_LIMIT_1"]) == ("1000m", "1000m")


def test_slots_are_the_kubelets_alone(node: Machine) -> None:
    with node.agent() as agent:
        node.wait_ready(agent, 20)
        status = {"status": {"capacity": {NUMBER: "3"}}}
        node.api.merge_patch(paths.node_status(NODE), status)
        wait_for(lambda: node.node()["status"]["capacity"][NUMBER] == "20", "the kubelet puts its number back")


def test_what_cannot_be_tidied_up_ends_nothing(node: Machine) -> None:
    folder = node.root / "hook" / "vgpu" / "containers"
    folder.parent.mkdir(parents=True)
    folder.write_text("in the way")
    with capture_logs() as logs, node.agent() as agent:
        node.wait_ready(agent, 20)
        wait_for(lambda: [each for each in logs if each["event"] == "leftovers_not_removed"], "it is told")
        assert page(agent, "/healthz")[0] == 200
        folder.unlink()
        uid = node.create(pod("one", container(memory=2000), ids=f"{A},NVIDIA,2000,0:"))
        node.started(uid)


def test_what_cannot_be_removed_is_shown_by_metric_log_and_verify_until_it_can(node: Machine) -> None:
    stays = node.root / "hook" / "vgpu" / "containers" / "uid-gone_main"
    stays.parent.mkdir(parents=True)
    stays.symlink_to(node.root)
    chosen = config.load("", {"NODE_NAME": NODE})

    def complaint() -> str:
        return "".join(each.complaint for each in verdict(node.api, chosen, allocator="", nodes=True).nodes)

    with capture_logs() as logs, node.agent() as agent:
        node.wait_ready(agent, 20)
        wait_for(lambda: str(stays) in complaint(), "verify names it")
        not_removed = 'volcano_vgpu_container_directories{state="not_removed"} '
        wait_for(lambda: f"{not_removed}1.0" in page(agent, "/metrics")[1], "the metric counts it")
        stays.unlink()
        stays.mkdir()
        wait_for(lambda: not complaint(), "verify is content")
        wait_for(lambda: f"{not_removed}0.0" in page(agent, "/metrics")[1], "the metric counts it no more")
    assert len([each for each in logs if each["event"] == "leftovers_kept"]) == 1


@pytest.mark.parametrize(("ahead", "touches"), [(5, 1), (1_000_000, 0), (-1_000_000, 0)])
def test_a_pod_that_was_bound_while_no_agent_ran_has_its_node_touched(node: Machine, ahead: int, touches: int) -> None:
    """A time in the future is ignored, unless clocks that differ a little explain it."""
    with node.agent() as agent:
        node.wait_ready(agent, 20)
        uid = node.create(pod("one", container(memory=2000), ids=f"{A},NVIDIA,2000,0:"))
        node.started(uid)
        wait_for(lambda: node.pod("one")["status"].get("phase") == "Running", "the pod runs")
        wait_for(lambda: agent.publisher.written == 3, "the node is touched")
    bound = {"volcano.sh/bind-time": str(int(time.time()) + ahead)}
    node.api.merge_patch(paths.pod("default", "one"), {"metadata": {"annotations": bound}})
    with node.agent("scheduler: {touchInterval: 1}") as agent:
        wait_for(lambda: not agent.trouble, "the agent is ready")
        if touches:
            wait_for(lambda: agent.publisher.written == touches, "the node is touched once more")
        else:
            time.sleep(2.5)
            assert agent.publisher.written == 0


def test_a_pod_whose_cards_came_from_the_cache_leaves_its_node_unwritten(node: Machine) -> None:
    with node.agent("scheduler: {touchInterval: 1}") as agent:
        node.wait_ready(agent, 20)
        written = agent.publisher.written
        body = pod("one", container(memory=2000), ids=f"{A},NVIDIA,2000,0:")
        body["metadata"]["annotations"]["hami-plugins.io/allocator"] = "extender"
        node.started(node.create(body))
        time.sleep(2.5)
        assert agent.publisher.written == written


def test_without_the_library_no_container_starts_and_once_it_is_there_all_do(node: Machine) -> None:
    image = node.root / "image"
    image.rename(node.root / "elsewhere")
    with node.agent() as agent:
        node.wait_ready(agent, 20)
        uid = node.create(pod("one", container(memory=2000), ids=f"{A},NVIDIA,2000,0:"))
        assert "no limit would hold" in wait_for(lambda: node.waits("one"), "the container waits")
        (node.root / "elsewhere").rename(image)
        node.started(uid)


def test_a_library_with_another_checksum_reaches_no_container_and_the_expected_one_does(node: Machine) -> None:
    """Neither that of the image nor one that the node has already."""
    good, hook = b"examined", node.root / "hook"
    hook.mkdir()
    (hook / "libvgpu.so").write_bytes(b"of the node")
    (hook / "ld.so.preload").write_text("/usr/local/vgpu/libvgpu.so\n")
    with node.agent(f"librarySha256: {hashlib.sha256(good).hexdigest()}") as agent:
        node.wait_ready(agent, 20)
        uid = node.create(pod("a", container(memory=2000), ids=f"{A},NVIDIA,2000,0:"))
        refused = f"its SHA-256 is {hashlib.sha256(b'of the node').hexdigest()}, and librarySha256 is"
        wait_for(lambda: refused in node.waits("a"), "the kubelet says which checksums there are")
        (node.root / "image" / "libvgpu.so").write_bytes(good)
        node.started(uid)
    assert (hook / "libvgpu.so").read_bytes() == good


def test_an_agent_ends_soon_while_the_api_server_is_slow(node: Machine) -> None:
    node.server.faults.add(Fault(action=Delay(15.0), verb="get", agent="agent", times=None))
    agent = node.start_agent()
    wait_for(agent.pods.store.synced.is_set, "the agent is about to look for the scheduler")
    time.sleep(0.5)
    began = time.monotonic()
    agent.stop()
    assert time.monotonic() - began < 10
