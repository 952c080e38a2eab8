"""The part on a node: files that are there before the label says so, and never half written."""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import urllib3

from hami_plugins.kube import paths
from hami_plugins.kube.client import connect_to
from hami_plugins.observe.metrics import Metrics
from hami_plugins.sandbox.fleet import bare_node
from koordinator_adapter.agent.app import PRODUCT, NodeAgent, is_ours
from koordinator_adapter.core.translation.vocabulary import ISOLATION
from koordinator_adapter.server.settings import AdapterSettings
from tests.integration.koordinator_adapter.servers import Site, a_pod
from tests.waiting import PATIENCE, wait_for

Start = Callable[..., NodeAgent]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """The folder of the image that has the library."""
    folder = tmp_path / "image"
    folder.mkdir()
    (folder / "libvgpu.so").write_bytes(library("version 1"))
    return folder


def library(version: str) -> bytes:
    """A file that begins as libraries of this machine do."""
    with Path("/proc/self/exe").open("rb") as file:
        return file.read(64) + version.encode()


@pytest.fixture
def start(cluster: Site, tmp_path: Path, source: Path) -> Iterator[Start]:
    """Starts the part of node ``n1``."""
    running: list[NodeAgent] = []
    cluster.put(bare_node("n1"))

    def begin(mode: str = "auto", **node: Any) -> NodeAgent:
        settings = AdapterSettings.model_validate(
            {
                "listen": {"host": "127.0.0.1", "port": 0},
                "injection": {
                    "mode": mode,
                    "hookPath": str(tmp_path / "vgpu"),
                    "lockPath": str(tmp_path / "vgpulock"),
                },
                "node": {"librarySource": str(source), "every": 1, **node},
            }
        )
        part = NodeAgent(settings, connect_to(cluster.server.url, component="node"), "n1", metrics=Metrics(PRODUCT))
        running.append(part)
        part.start()
        return part

    yield begin
    for part in running:
        part.stop()


def label(cluster: Site) -> str | None:
    found: dict[str, str] = cluster.server.get("nodes", "n1")["metadata"].get("labels", {})
    return found.get(ISOLATION)


def test_a_node_promises_limits_once_the_library_is_there(cluster: Site, start: Start, tmp_path: Path) -> None:
    part = start()
    wait_for(lambda: label(cluster) == "HAMi-core", "the node has the label")
    assert (tmp_path / "vgpu/libvgpu.so").read_bytes() == library("version 1")
    assert (tmp_path / "vgpu/ld.so.preload").read_text() == "/usr/local/vgpu/libvgpu.so\n"
    assert stat.S_IMODE((tmp_path / "vgpulock").stat().st_mode) == 0o777
    assert sorted(each.name for each in (tmp_path / "vgpu").iterdir()) == [
        "ld.so.preload",
        "libvgpu.so",
        "libvgpu.so.version",
    ]
    wait_for(lambda: probe(part, "/readyz")[0] == 200, "it is ready")
    assert "koordinator_adapter_node_library_installed 1.0" in probe(part, "/metrics")[1]


def probe(part: NodeAgent, path: str) -> tuple[int, str]:
    answer = urllib3.request("GET", f"http://127.0.0.1:{part.address[1]}{path}", retries=False, timeout=PATIENCE)
    return answer.status, answer.data.decode()


def test_a_new_library_takes_the_old_ones_place_and_who_has_that_mapped_keeps_it(
    cluster: Site, start: Start, tmp_path: Path, source: Path
) -> None:
    start()
    installed = tmp_path / "vgpu/libvgpu.so"
    wait_for(lambda: label(cluster) == "HAMi-core", "the node has the label")
    with installed.open("rb") as mapped:
        (source / "libvgpu.so").write_bytes(library("version 2, longer"))
        wait_for(lambda: installed.read_bytes() == library("version 2, longer"), "the new one is there")
        assert mapped.read() == library("version 1")


def test_the_label_goes_with_the_library_and_comes_back_with_it(
    cluster: Site, start: Start, tmp_path: Path, source: Path
) -> None:
    part = start()
    wait_for(lambda: label(cluster) == "HAMi-core", "the node has the label")
    (source / "libvgpu.so").unlink()
    (tmp_path / "vgpu/libvgpu.so").unlink()
    wait_for(lambda: label(cluster) is None, "the label is gone")
    wait_for(lambda: "limits do not hold" in part.problem, "the reason is known")
    status, said = probe(part, "/readyz")
    assert status == 503
    assert "libvgpu.so" in said
    (source / "libvgpu.so").write_bytes(library("version 3"))
    wait_for(lambda: label(cluster) == "HAMi-core", "the label is back")


def test_a_library_that_somebody_else_installed_is_used_and_none_is_told(
    cluster: Site, start: Start, tmp_path: Path
) -> None:
    part = start(librarySource=None)
    wait_for(lambda: "librarySource" in part.problem, "it says what is missing")
    assert label(cluster) is None
    wait_for((tmp_path / "vgpu").is_dir, "the folder is there")
    (tmp_path / "vgpu/libvgpu.so").write_bytes(library("theirs"))
    wait_for(lambda: label(cluster) == "HAMi-core", "the node has the label")
    assert (tmp_path / "vgpu/libvgpu.so").read_bytes() == library("theirs")
    assert (tmp_path / "vgpu/ld.so.preload").read_text() == "/usr/local/vgpu/libvgpu.so\n"


def test_a_library_with_another_checksum_is_neither_installed_nor_promised(
    cluster: Site, start: Start, tmp_path: Path
) -> None:
    expected = "0" * 64
    part = start(librarySha256=expected)
    wait_for(lambda: f"and librarySha256 is {expected}" in part.problem, "it says which checksum is expected")
    assert not (tmp_path / "vgpu/libvgpu.so").exists()
    assert label(cluster) is None


def test_a_library_of_the_node_with_another_checksum_is_not_promised(
    cluster: Site, start: Start, tmp_path: Path
) -> None:
    (tmp_path / "vgpu").mkdir()
    (tmp_path / "vgpu/libvgpu.so").write_bytes(library("theirs"))
    part = start(librarySource=None, librarySha256="0" * 64)
    wait_for(lambda: f"{tmp_path}/vgpu/libvgpu.so: its SHA-256 is" in part.problem, "that of the node is checked")
    assert label(cluster) is None


@pytest.mark.parametrize("content", [b"", b"a page of an error", b"\x7fELF" + bytes(60)])
def test_a_file_that_no_program_here_would_load_is_neither_installed_nor_promised(
    cluster: Site, start: Start, tmp_path: Path, source: Path, content: bytes
) -> None:
    (source / "libvgpu.so").write_bytes(content)
    part = start()
    wait_for(lambda: "not put on the node" in part.problem, "it is told")
    wait_for((tmp_path / "vgpulock").is_dir, "it has been looked at")
    assert not (tmp_path / "vgpu/libvgpu.so").exists()
    (tmp_path / "vgpu/libvgpu.so").write_bytes(content)
    (source / "libvgpu.so").unlink()
    wait_for(lambda: probe(part, "/readyz")[0] == 503, "it is not ready")
    assert label(cluster) is None
    (tmp_path / "vgpu/libvgpu.so").write_bytes(library("good"))
    wait_for(lambda: label(cluster) == "HAMi-core", "a good one is promised, whoever put it there")
    (source / "libvgpu.so").write_bytes(content)
    wait_for(lambda: "not put on the node" in part.problem, "the bad one is told again")
    assert (tmp_path / "vgpu/libvgpu.so").read_bytes() == library("good")
    assert label(cluster) == "HAMi-core"


def a_koordlet(gate: str) -> dict[str, Any]:
    pod = a_pod("koordlet-1", {}, labels={"koord-app": "koordlet"})
    pod["spec"] |= {"nodeName": "n1"}
    pod["spec"]["containers"][0]["args"] = [f"-feature-gates={gate}=true"]
    return pod


def test_a_node_promises_nothing_while_nobody_puts_limits_into_containers(cluster: Site, start: Start) -> None:
    cluster.put(a_koordlet("Accelerators"))
    part = start(mode="never", every=3600)
    wait_for(lambda: probe(part, "/readyz")[0] == 200, "the library is there")
    assert "GPUEnvInject" in part.unenforced
    assert label(cluster) is None
    cluster.put(a_koordlet("GPUEnvInject"))
    wait_for(lambda: label(cluster) == "HAMi-core", "its koordlet does")
    cluster.server.delete("pods", "koordlet-1", "default", grace=0)
    wait_for(lambda: label(cluster) is None, "its koordlet does no more")
    wait_for(lambda: "limits_promised 0.0" in probe(part, "/metrics")[1], "it is counted")


def test_a_label_of_an_administrator_is_never_taken_away(cluster: Site, start: Start, tmp_path: Path) -> None:
    cluster.api.merge_patch(paths.node("n1"), {"metadata": {"labels": {ISOLATION: "HAMi-core"}}})
    version = cluster.server.get("nodes", "n1")["metadata"]["resourceVersion"]
    part = start(mode="never", librarySource=None)
    wait_for(lambda: "librarySource" in part.problem and (tmp_path / "vgpulock").is_dir(), "it has been looked at")
    cluster.server.cut_watches()
    wait_for(lambda: "limits_promised 1.0" in probe(part, "/metrics")[1], "the node promises limits")
    assert cluster.server.get("nodes", "n1")["metadata"]["resourceVersion"] == version


@pytest.mark.parametrize(("manager", "ours"), [("hami-plugins", True), ("kubectl-label", False)])
def test_whose_a_label_is_stands_in_the_servers_own_books(manager: str, ours: bool) -> None:
    entry = {"manager": manager, "fieldsV1": {"f:metadata": {"f:labels": {f"f:{ISOLATION}": {}}}}}
    assert is_ours({"managedFields": [{"manager": "kubelet", "fieldsV1": {"f:status": {}}}, entry]}) is ours


def test_a_label_that_somebody_takes_off_is_put_back_at_once_and_nothing_else_is_written(
    cluster: Site, start: Start
) -> None:
    start(every=3600)
    wait_for(lambda: label(cluster) == "HAMi-core", "the node has the label")
    cluster.api.merge_patch(paths.node("n1"), {"metadata": {"labels": {ISOLATION: None}}})
    wait_for(lambda: label(cluster) == "HAMi-core", "the label is back")
    version = cluster.server.get("nodes", "n1")["metadata"]["resourceVersion"]
    cluster.server.cut_watches()
    cluster.put(bare_node("n2"))
    assert cluster.server.get("nodes", "n1")["metadata"]["resourceVersion"] == version


def test_the_label_is_left_alone_where_that_is_set(cluster: Site, start: Start, tmp_path: Path) -> None:
    start(label=False)
    wait_for((tmp_path / "vgpu/libvgpu.so").exists, "the library is there")
    assert label(cluster) is None


def test_something_else_in_the_place_of_the_locks_is_told(cluster: Site, start: Start, tmp_path: Path) -> None:
    (tmp_path / "vgpulock").symlink_to(tmp_path)
    part = start()
    wait_for(lambda: "vgpulock" in part.problem, "it is told")
    assert label(cluster) is None
