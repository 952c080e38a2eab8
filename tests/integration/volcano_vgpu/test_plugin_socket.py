"""The plugin's socket: registered with every kubelet that comes, streams that end, calls over gRPC."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest

from hami_plugins.node.kubelet import deviceplugin_pb2 as messages
from hami_plugins.node.kubelet.deviceplugin_pb2_grpc import (
    DevicePluginStub,
    RegistrationServicer,
    add_RegistrationServicer_to_server,
)
from hami_plugins.node.kubelet.sockets import KUBELET_SOCKET
from tests.integration.volcano_vgpu.kubelets import Node
from tests.unit.volcano_vgpu.allocated_pods import COUNT, pod
from tests.waiting import PATIENCE, wait_for
from volcano_vgpu.agent.kubelet import SOCKET, DevicePluginServer
from volcano_vgpu.agent.server import Slot


class Registrations(RegistrationServicer):
    """A kubelet that only takes registrations."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.requests: queue.Queue[messages.RegisterRequest] = queue.Queue()
        self.refusing = False
        self._server: grpc.Server | None = None

    def Register(self, request: messages.RegisterRequest, context: grpc.ServicerContext) -> messages.Empty:  # noqa: N802
        if self.refusing:
            context.abort(grpc.StatusCode.UNAVAILABLE, "not yet")
        self.requests.put(request)
        return messages.Empty()

    def start(self) -> None:
        """As a kubelet does: the plugins' sockets are removed, and a new one of its own is made."""
        for path in self._directory.glob("*.sock"):
            path.unlink()
        self._server = grpc.server(ThreadPoolExecutor(max_workers=2))
        add_RegistrationServicer_to_server(self, self._server)
        self._server.add_insecure_port(f"unix://{self._directory / KUBELET_SOCKET}")
        self._server.start()

    def stop(self) -> None:
        if self._server is not None:
            self._server.stop(0).wait()
            self._server = None


@pytest.fixture
def kubelet(tmp_path: Path) -> Iterator[Registrations]:
    found = Registrations(tmp_path)
    yield found
    found.stop()


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


@pytest.fixture
def endpoint(node: Node) -> Iterator[DevicePluginServer]:
    found = DevicePluginServer(node.plugin, directory=node.directory, resource=COUNT, poll=0.05, clock=lambda: 0.0)
    yield found
    found.stop(0)


@pytest.fixture
def stub(node: Node) -> Iterator[DevicePluginStub]:
    with grpc.insecure_channel(f"unix://{node.directory / SOCKET}") as channel:
        yield DevicePluginStub(channel)


def test_the_kubelet_is_told_what_the_plugin_can_do(kubelet: Registrations, endpoint: DevicePluginServer) -> None:
    kubelet.start()
    endpoint.start()
    request = kubelet.requests.get(timeout=PATIENCE)
    assert (request.version, request.endpoint, request.resource_name) == ("v1beta1", "volcano-vgpu.sock", COUNT)
    assert request.options.pre_start_required
    assert request.options.get_preferred_allocation_available


def test_the_plugin_waits_for_a_kubelet_that_comes_later(kubelet: Registrations, endpoint: DevicePluginServer) -> None:
    endpoint.start()
    kubelet.start()
    assert kubelet.requests.get(timeout=PATIENCE).endpoint == SOCKET
    assert endpoint.registered.wait(PATIENCE)


def test_every_kubelet_that_starts_gets_a_new_socket_and_a_registration(
    kubelet: Registrations, endpoint: DevicePluginServer, node: Node
) -> None:
    kubelet.start()
    endpoint.start()
    for _ in range(3):
        assert kubelet.requests.get(timeout=PATIENCE).endpoint == SOCKET
        assert endpoint.registered.wait(PATIENCE)
        with grpc.insecure_channel(f"unix://{node.directory / SOCKET}") as channel:
            options = DevicePluginStub(channel).GetDevicePluginOptions(messages.Empty(), timeout=PATIENCE)
        assert options.pre_start_required
        kubelet.stop()
        kubelet.start()
    assert kubelet.requests.get(timeout=PATIENCE).endpoint == SOCKET


def test_a_socket_that_is_taken_away_is_served_again(
    kubelet: Registrations, endpoint: DevicePluginServer, node: Node
) -> None:
    kubelet.start()
    endpoint.start()
    kubelet.requests.get(timeout=PATIENCE)
    assert endpoint.registered.wait(PATIENCE)
    (node.directory / SOCKET).unlink()
    assert kubelet.requests.get(timeout=PATIENCE).endpoint == SOCKET


def test_a_kubelet_that_refuses_is_asked_again(kubelet: Registrations, endpoint: DevicePluginServer) -> None:
    kubelet.refusing = True
    kubelet.start()
    endpoint.start()
    assert not endpoint.registered.wait(0.2)
    kubelet.refusing = False
    assert endpoint.registered.wait(PATIENCE)


def test_a_kubelet_that_goes_is_noticed(kubelet: Registrations, endpoint: DevicePluginServer, node: Node) -> None:
    kubelet.start()
    endpoint.start()
    assert endpoint.registered.wait(PATIENCE)
    kubelet.stop()
    (node.directory / KUBELET_SOCKET).unlink(missing_ok=True)
    wait_for(lambda: not endpoint.registered.is_set())


def test_nothing_is_left_when_the_plugin_stops(
    kubelet: Registrations, endpoint: DevicePluginServer, node: Node
) -> None:
    before = threading.active_count()
    kubelet.start()
    endpoint.start()
    assert endpoint.registered.wait(PATIENCE)
    endpoint.stop(0)
    kubelet.stop()
    assert not (node.directory / SOCKET).exists()
    wait_for(lambda: threading.active_count() <= before)


def test_the_list_is_sent_again_whenever_it_changes(
    kubelet: Registrations, endpoint: DevicePluginServer, node: Node, stub: DevicePluginStub
) -> None:
    kubelet.start()
    endpoint.start()
    assert endpoint.registered.wait(PATIENCE)
    stream = stub.ListAndWatch(messages.Empty(), timeout=PATIENCE)
    first = next(stream)
    assert [device.ID for device in first.devices] == node.offered
    assert {device.health for device in first.devices} == {"Healthy"}
    unchanged = [Slot(slot) for each in node.cards for slot in node.slots.slots_of(each.uuid)]
    node.plugin.offer(unchanged)
    node.plugin.offer([slot._replace(healthy=False, numa=1) for slot in unchanged[:2]])
    second = next(stream)
    assert [(device.health, device.topology.nodes[0].ID) for device in second.devices] == [("Unhealthy", 1)] * 2
    node.plugin.offer([])
    assert next(stream).devices == []
    stream.cancel()


def test_streams_end_when_the_plugin_stops(
    kubelet: Registrations, endpoint: DevicePluginServer, stub: DevicePluginStub
) -> None:
    kubelet.start()
    endpoint.start()
    assert endpoint.registered.wait(PATIENCE)
    streams = [stub.ListAndWatch(messages.Empty(), timeout=PATIENCE) for _ in range(3)]
    for stream in streams:
        next(stream)
    endpoint.stop(PATIENCE)
    for stream in streams:
        assert list(stream) == []


def test_a_stream_that_its_kubelet_left_frees_its_thread(
    kubelet: Registrations, endpoint: DevicePluginServer, stub: DevicePluginStub, node: Node
) -> None:
    kubelet.start()
    endpoint.start()
    assert endpoint.registered.wait(PATIENCE)
    for _ in range(40):
        stream = stub.ListAndWatch(messages.Empty(), timeout=PATIENCE)
        next(stream)
        stream.cancel()
    options = stub.GetDevicePluginOptions(messages.Empty(), timeout=PATIENCE)
    assert options.pre_start_required


def test_streams_that_are_never_read_leave_room_for_calls(
    kubelet: Registrations, endpoint: DevicePluginServer, node: Node, stub: DevicePluginStub
) -> None:
    kubelet.start()
    endpoint.start()
    assert endpoint.registered.wait(PATIENCE)
    streams = [stub.ListAndWatch(messages.Empty()) for _ in range(100)]
    try:
        assert stub.GetDevicePluginOptions(messages.Empty(), timeout=PATIENCE).pre_start_required
        wait_for(lambda: any(not stream.is_active() for stream in streams))
        refused = {stream.code() for stream in streams if not stream.is_active()}
        assert refused == {grpc.StatusCode.RESOURCE_EXHAUSTED}, "whichever of them came last"
    finally:
        for stream in streams:
            stream.cancel()
    wait_for(lambda: not node.plugin.listening)
    again = stub.ListAndWatch(messages.Empty(), timeout=PATIENCE)
    assert [device.ID for device in next(again).devices] == node.offered
    again.cancel()


def test_calls_work_over_the_socket_and_refusals_arrive_as_text(
    kubelet: Registrations, endpoint: DevicePluginServer, node: Node, stub: DevicePluginStub
) -> None:
    kubelet.start()
    endpoint.start()
    assert endpoint.registered.wait(PATIENCE)
    node.kubelet.calls = stub
    raw = node.create(pod())
    assert node.kubelet.admit(raw) == ""
    assert node.kubelet.start("uid-p", "main") == ""
    assert node.given("uid-p", "main")
    bare = node.create(pod(name="bare", ids=None))
    assert node.kubelet.admit(bare) == ""
    text = node.kubelet.start("uid-bare", "main")
    assert "FAILED_PRECONDITION" in text
    assert "pod team/bare: Volcano bound it without allocating a card" in text


def test_a_plugin_that_nobody_listens_to_registers_again(kubelet: Registrations, node: Node) -> None:
    endpoint = DevicePluginServer(node.plugin, directory=node.directory, resource=COUNT, poll=0.05)
    kubelet.start()
    endpoint.start()
    try:
        kubelet.requests.get(timeout=PATIENCE)
        with grpc.insecure_channel(f"unix://{node.directory / SOCKET}") as channel:
            stream = DevicePluginStub(channel).ListAndWatch(messages.Empty())
            next(stream)
            time.sleep(2)
            assert kubelet.requests.empty()
            stream.cancel()
        kubelet.requests.get(timeout=PATIENCE)
    finally:
        endpoint.stop(0)


def test_a_plugin_directory_that_is_no_directory_for_a_while_is_waited_for(tmp_path: Path, node: Node) -> None:
    directory = tmp_path / "plugins"
    directory.mkdir()
    kubelet = Registrations(directory)
    endpoint = DevicePluginServer(node.plugin, directory=directory, resource=COUNT, poll=0.02, clock=lambda: 0.0)
    kubelet.start()
    endpoint.start()
    try:
        kubelet.requests.get(timeout=PATIENCE)
        kubelet.stop()
        for path in directory.iterdir():
            path.unlink()
        directory.rmdir()
        directory.write_text("in the way")
        wait_for(lambda: not endpoint.registered.is_set())
        directory.unlink()
        directory.mkdir()
        kubelet.start()
        kubelet.requests.get(timeout=PATIENCE)
    finally:
        endpoint.stop(0)
        kubelet.stop()


def test_a_plugin_in_vain_registers_less_and_less_often(kubelet: Registrations, node: Node) -> None:
    now = [0.0]
    endpoint = DevicePluginServer(
        node.plugin, directory=node.directory, resource=COUNT, poll=0.01, clock=lambda: now[0]
    )
    kubelet.start()
    endpoint.start()
    try:
        kubelet.requests.get(timeout=PATIENCE)
        now[0] = 1.5
        kubelet.requests.get(timeout=PATIENCE)
        now[0] = 3.0
        with pytest.raises(queue.Empty):
            kubelet.requests.get(timeout=0.5)
        now[0] = 4.0
        kubelet.requests.get(timeout=PATIENCE)
    finally:
        endpoint.stop(0)
