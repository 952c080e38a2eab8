"""``nodes --watch`` on a live cluster: printed again after a change, by watches alone, until Ctrl-C."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from hami_plugins.sandbox.apiserver import KOORDINATOR, ApiServer, CloseWatch, Fault, Refuse
from tests.waiting import wait_for

DUMP = Path(__file__).parents[1] / "golden" / "output" / "nodes-cluster.yaml"
ALLOCATED = "hami.io/vgpu-devices-allocated"


@pytest.fixture
def server() -> Iterator[ApiServer]:
    with ApiServer(kinds=KOORDINATOR) as running:
        for namespace in ("lab", "ml"):
            running.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
        for each in yaml.safe_load(DUMP.read_text())["items"]:
            for container in each.get("spec", {}).get("containers", ()):
                container["image"] = "example"
            running.put(each)
        yield running


class Watcher:
    """The command, and everything that it has printed so far."""

    def __init__(self, server: ApiServer, folder: Path, *words: str, terminal: bool = False) -> None:
        file = folder / "config"
        file.write_text(json.dumps(_kubeconfig(server.url)), encoding="utf-8")
        command = [sys.executable, "-m", "hami_plugins.cli", "nodes", "--watch", "--kubeconfig", str(file), *words]
        reader, writer = pty.openpty() if terminal else os.pipe()
        environment = {**os.environ, "NO_PROXY": "*", "TERM": "xterm", "LINES": "40", "COLUMNS": "200"}
        with (folder / "stderr").open("wb") as errors:
            self.process = subprocess.Popen(command, stdout=writer, stderr=errors, env=environment)
        os.close(writer)
        self.folder = folder
        self.printed = b""
        self._reader = threading.Thread(target=self._read, args=(reader,))
        self._reader.start()

    @property
    def out(self) -> str:
        return self.printed.decode()

    @property
    def err(self) -> str:
        return (self.folder / "stderr").read_text()

    def _read(self, reader: int) -> None:
        with os.fdopen(reader, "rb", buffering=0) as file:
            try:
                while part := file.read(65536):
                    self.printed += part
            except OSError:
                pass  # a terminal ends so

    def __enter__(self) -> Watcher:
        return self

    def __exit__(self, *_error: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._reader.join()

    def interrupt(self) -> int:
        self.process.send_signal(signal.SIGINT)
        code = self.process.wait(60)
        self._reader.join()
        return code


def _kubeconfig(url: str) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
    }


def a_pod(name: str) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "lab", "annotations": {ALLOCATED: "GPU-m1,NVIDIA,9984,28:;"}},
        "spec": {"nodeName": "mig", "containers": [{"name": "main", "image": "i"}]},
    }


def test_a_pipe_gets_a_table_after_every_change(server: ApiServer, tmp_path: Path) -> None:
    with Watcher(server, tmp_path, "mig") as watcher:
        wait_for(lambda: "1 node, 2 cards" in watcher.out, "the first table")
        lists = server.requests.total(verb="list")
        server.put(a_pod("comes"))
        wait_for(lambda: watcher.out.count("1 node, 2 cards") == 2, "the second table")
        first, second = watcher.out.split("\n\nNODE")
        assert "lab/comes" not in first
        assert "lab/comes 9.8 GiB, 28 %" in second
        node = server.get("nodes", "cpu-only")
        server.put({**node, "metadata": {**node["metadata"], "labels": {"nothing": "new"}}})
        server.put(a_pod("again"))
        wait_for(lambda: "lab/again" in watcher.out, "the third table")
        assert watcher.out.count("1 node, 2 cards") == 3
        assert server.requests.total(verb="list") == lists
        assert watcher.interrupt() == 0
        assert "node broken" in watcher.err
        assert "Traceback" not in watcher.err


def test_a_terminal_shows_the_newest_table_alone(server: ApiServer, tmp_path: Path) -> None:
    with Watcher(server, tmp_path, "mig", terminal=True) as watcher:
        wait_for(lambda: "2 cards" in watcher.out, "the first table")
        assert "\x1b[2J" not in watcher.out
        server.put(a_pod("comes"))
        wait_for(lambda: "lab/comes" in watcher.out, "the second table")
        assert "\x1b[2J" in watcher.out
        assert watcher.interrupt() == 0


def test_a_cluster_that_cannot_be_read_is_an_error_at_once(server: ApiServer, tmp_path: Path) -> None:
    server.faults.add(Fault(action=Refuse(403, message="pods is forbidden"), resource="pods", times=None))
    with Watcher(server, tmp_path) as watcher:
        assert watcher.process.wait(120) == 2
        assert "pods is forbidden" in watcher.err
        assert len(watcher.err.splitlines()) == 1


def test_a_torn_watch_is_followed_by_another(server: ApiServer, tmp_path: Path) -> None:
    server.faults.add(Fault(action=CloseWatch(abrupt=True), verb="watch", resource="pods", times=2))
    with Watcher(server, tmp_path, "mig") as watcher:
        wait_for(lambda: "2 cards" in watcher.out, "the first table")
        server.put(a_pod("comes"))
        wait_for(lambda: "lab/comes" in watcher.out, "the second table")
        assert watcher.interrupt() == 0
        assert "watch_interrupted" not in watcher.out + watcher.err
