"""What a workload leaves in its folder on the node's disk: it cannot stop the agent from tidying the node."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from hami_plugins.kube import paths
from hami_plugins.kube.client import connect_to
from hami_plugins.model.units import PodUid
from hami_plugins.node.hami_core import folders
from hami_plugins.sandbox.apiserver import ApiServer
from tests.waiting import PATIENCE
from volcano_vgpu.agent import config
from volcano_vgpu.agent.cdi import CdiDirectory
from volcano_vgpu.agent.cleanup import Cleaner
from volcano_vgpu.agent.containers import ContainerDirectories, GarbageCollector

DEEP = 3000
"""Levels: more than Python recurses, and longer than a path may be."""

A_USER = 1000
AS_THE_CHART_RUNS_IT = ("setpriv", "--bounding-set=-all,+fowner", "--inh-caps=-all", "--no-new-privs")
WITHOUT_CAPABILITIES = ("setpriv", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs")

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root makes folders for other users")


class Node(NamedTuple):
    """The folders of a node's agent."""

    root: Path
    directories: ContainerDirectories
    leftovers: GarbageCollector

    def folder(self, pod: str) -> Path:
        """The folder of a container, as the agent makes it."""
        assert self.directories.make([f"{pod}_main"]) is None
        return self.directories.path(f"{pod}_main")


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    directories = ContainerDirectories(tmp_path / "hook", tmp_path / "lock")
    yield Node(
        tmp_path,
        directories,
        GarbageCollector(CdiDirectory(tmp_path / "cdi"), directories, recorded=frozenset, live=frozenset),
    )
    # pytest removes old folders by recursion, and would stumble as well.
    subprocess.run(["rm", "-rf", str(tmp_path / "hook")], check=True)  # noqa: S607


def deepen(folder: Path, levels: int) -> None:
    """As a workload does: it changes into each folder, so that no path is too long."""
    at = os.open(folder, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir("d", dir_fd=at)
        below = os.open("d", os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=at))
    os.close(at)


def looked(node: Node, prefix: tuple[str, ...], looks: int = 2) -> Any:
    """What an agent's process reports that has these capabilities."""
    module = "tests.integration.attacks.folders"
    command = [*prefix, sys.executable, "-m", module, str(node.root / "hook"), str(node.root / "cdi"), str(looks)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_deep_folder_is_removed_and_hides_none_behind_it(node: Node) -> None:
    deepen(node.folder("uid-a"), DEEP)
    node.folder("uid-b")
    node.leftovers.collect()
    assert node.leftovers.collect() == {"uid-a", "uid-b"}
    assert node.directories.names() == ()


def test_a_deep_folder_is_removed_with_few_descriptors(node: Node) -> None:
    deepen(node.folder("uid-a"), DEEP)
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    open_now = len(list(Path("/proc/self/fd").iterdir()))
    resource.setrlimit(resource.RLIMIT_NOFILE, (open_now + 16, before[1]))
    try:
        node.leftovers.collect()
        assert node.leftovers.collect() == {"uid-a"}
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_a_link_is_removed_and_what_it_leads_to_stays(node: Node) -> None:
    elsewhere = node.root / "elsewhere"
    (elsewhere / "inside").mkdir(parents=True)
    (elsewhere / "kept").write_text("kept")
    elsewhere.chmod(0o750)
    folder = node.folder("uid-a")
    (folder / "below").mkdir()
    for at in (folder / "link", folder / "below" / "link"):
        at.symlink_to(elsewhere)
    (folder / "below" / "file").symlink_to(elsewhere / "kept")
    node.leftovers.collect()
    assert node.leftovers.collect() == {"uid-a"}
    assert (elsewhere / "kept").read_text() == "kept"
    assert (elsewhere / "inside").is_dir()
    assert elsewhere.stat().st_mode & 0o777 == 0o750


def test_a_folder_that_is_a_link_is_no_way_out(node: Node) -> None:
    elsewhere = node.root / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "kept").write_text("kept")
    folder = node.folder("uid-a")
    folder.rmdir()
    folder.symlink_to(elsewhere)
    for _ in range(2):
        node.leftovers.collect()
    assert (elsewhere / "kept").read_text() == "kept"


def owned(folder: Path, user: int, mode: int) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "file").write_text("x" * 10_000)
    for path in (folder / "file", folder):
        os.chown(path, user, user)
    folder.chmod(mode)
    return folder


@needs_root
@pytest.mark.parametrize("mode", [0o700, 0o000, 0o1777])
def test_folders_of_other_users_are_removed_with_the_capability_that_the_chart_keeps(node: Node, mode: int) -> None:
    folder = node.folder("uid-a")
    owned(folder / "one", A_USER, 0o755)
    owned(folder / "one" / "two", A_USER, mode)
    owned(folder / "one", A_USER, mode)
    owned(folder, A_USER, mode)
    found = looked(node, AS_THE_CHART_RUNS_IT)
    assert (found["removed"], found["left"]) == (["uid-a"], [])


@needs_root
def test_a_folder_that_cannot_be_removed_is_told_once_with_its_reason_and_the_others_go(node: Node) -> None:
    owned(node.folder("uid-a") / "private", A_USER, 0o700)
    node.folder("uid-b")
    found = looked(node, WITHOUT_CAPABILITIES, looks=9)
    assert found["removed"] == ["uid-b"]
    assert found["left"] == ["uid-a_main"]
    removed = [each["pods"] for each in found["logs"] if each["event"] == "leftovers_removed"]
    assert removed == [["uid-b"]], "what stays is not reported as removed"
    kept = [each for each in found["logs"] if each["event"] == "leftovers_kept"]
    assert [each["pod_uid"] for each in kept] == ["uid-a"]
    assert "Permission denied" in kept[0]["reason"]
    assert "FOWNER" in kept[0]["remedy"]
    assert not [each for each in found["logs"] if each.get("exc_info")]


def unremovable(node: Node, pod: str) -> Path:
    """A directory that even root cannot remove as one: something else has its name."""
    folder = node.folder(pod)
    folder.rmdir()
    folder.symlink_to(node.root)
    return folder


def test_what_cannot_be_removed_is_tried_again_ever_more_seldom_until_it_goes(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = unremovable(node, "uid-a")
    tried: list[int] = []
    remove = node.directories.remove

    def noted(name: str) -> bool:
        tried.append(looks)
        return remove(name)

    monkeypatch.setattr(node.directories, "remove", noted)
    for looks in range(1, 300):  # noqa: B007 - read by the function above
        node.leftovers.collect()
    pauses = [after - before for before, after in pairwise(tried)]
    assert pauses == [2, 4, 8, 16, 32, 64, 64, 64]
    assert "uid-a" in (node.leftovers.kept or "")
    folder.unlink()
    folder.mkdir()
    gone = [found for _ in range(65) if (found := node.leftovers.collect())]
    assert gone == [{"uid-a"}]
    assert node.leftovers.kept == ""


def test_nothing_is_said_of_leftovers_before_the_second_look(node: Node) -> None:
    """An agent that starts anew must not take back what the one before it said."""
    unremovable(node, "uid-a")
    unremovable(node, "uid-b")
    said: list[str | None] = []
    for _ in range(2):
        node.leftovers.collect()
        said.append(node.leftovers.kept)
    assert said[0] is None
    assert "uid-a" in str(said[1])
    assert "1 more pods" in str(said[1])


def test_one_look_removes_no_more_than_so_many_entries_and_the_next_goes_on(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    for at in range(5):
        (folder / str(at) / "deep").mkdir(parents=True)
        (folder / str(at) / "file").touch()
    calls = 0
    while not folders.remove_tree(folder, most=4):
        calls += 1
        assert calls < 10
    assert calls >= 3
    assert not folder.exists()
    assert folders.remove_tree(folder)


def test_disk_space_is_measured_without_links_and_each_file_once(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    (folder / "below").mkdir(parents=True)
    (tmp_path / "elsewhere").write_bytes(b"x" * 1_000_000)
    (folder / "link").symlink_to(tmp_path / "elsewhere")
    (folder / "to-folder").symlink_to(tmp_path)
    (folder / "below" / "one").write_bytes(b"x" * 200_000)
    for at in range(5):
        os.link(folder / "below" / "one", folder / f"again-{at}")
    found = folders.measure_tree(folder)
    assert found.whole
    assert 200_000 <= found.taken < 300_000
    assert folders.measure_tree(tmp_path / "none") == (0, True)


def test_a_folder_that_is_too_deep_or_too_wide_is_known_to_be_larger(tmp_path: Path) -> None:
    deep, wide = tmp_path / "deep", tmp_path / "wide"
    deep.joinpath(*"abcdefghijklmnopqrst").mkdir(parents=True)
    wide.mkdir()
    for at in range(20):
        (wide / str(at)).touch()
    assert not folders.measure_tree(deep).whole
    assert folders.measure_tree(wide, most=20).whole
    assert not folders.measure_tree(wide, most=19).whole


def test_cleaning_the_node_removes_a_deep_folder_and_names_what_stays(node: Node) -> None:
    deepen(node.folder("uid-b"), DEEP)
    stays = unremovable(node, "uid-a")
    with ApiServer() as server, closing(connect_to(server.url, component="test")) as api:
        api.create(paths.NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}})
        text = yaml.safe_dump(
            {
                "hookPath": str(node.root / "hook"),
                "lockPath": str(node.root / "lock"),
                "cdiDirectory": str(node.root / "cdi"),
                "kubeletDirectory": str(node.root),
            }
        )
        found = Cleaner(config.load(text, {"NODE_NAME": "n1"}), api).clean()
    assert [line for line in found.removed if "uid-" in line] == [str(node.directories.path("uid-b_main"))]
    (kept,) = found.kept
    assert str(stays) in kept
    assert "FOWNER" in kept


def test_files_that_others_put_among_the_specifications_hide_none_and_keep_no_agent_waiting(tmp_path: Path) -> None:
    made = CdiDirectory(tmp_path)
    device = {"name": "n", "annotations": {"volcano.sh/container": "main", "volcano.sh/slots": "a"}}
    made.path(PodUid("mine")).write_text(json.dumps({"devices": [device]}))
    made.path(PodUid("deep")).write_text("[" * 200_000)
    made.path(PodUid("endless")).symlink_to("/dev/zero")
    made.path(PodUid("folder")).mkdir()
    os.mkfifo(made.path(PodUid("pipe")))
    opening = threading.Thread(target=made.open, daemon=True)
    opening.start()
    opening.join(PATIENCE)
    assert not opening.is_alive()
    assert made.pods == {"mine"}
