"""``sandbox`` as people run it: a cluster of a fleet on this machine, pods with devices, and nothing left after it."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
import urllib3
import yaml

from hami_plugins.cli import main
from tests import raw_objects

LONGEST: Final = 240.0
"""Seconds that anything may take on a machine that is kept busy by other tests; by itself it takes a few."""

FLEET: Final = """\
name: small
nodes:
- {shape: a100-80x8, agents: volcano, unhealthy: [7]}
- {shape: t4x1, agents: hami}
- {shape: trn1.32xlarge}
"""
PODS: Final = "/api/v1/namespaces/default/pods"


@pytest.fixture
def scratch() -> Iterator[Path]:
    """A place for temporary files; short, for sockets are in it."""
    root = Path(tempfile.mkdtemp(prefix="sb-"))
    yield root
    shutil.rmtree(root)


class RunningSandbox:
    """A sandbox that has said how it is used."""

    def __init__(self, process: subprocess.Popen[str], text: str) -> None:
        self.process = process
        self.text = text
        self.url = re.findall(r"at (http://127\.0\.0\.1:\d+)\.", text)[0]

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        answer = urllib3.request(method, f"{self.url}{path}", json=body, retries=False)
        assert answer.status < 300, answer.data
        return json.loads(answer.data) if answer.headers["content-type"] == "application/json" else answer.data.decode()

    def running(self, name: str) -> dict[str, Any]:
        """A pod, once it runs."""
        found: dict[str, Any] = {}

        def runs() -> bool:
            found.update(self.ask("GET", f"{PODS}/{name}"))
            return bool((found.get("status") or {}).get("phase") == "Running")

        _wait_for(runs, f"{name} runs")
        return found

    def end(self, number: int = signal.SIGTERM) -> tuple[int, str]:
        self.process.send_signal(number)
        out, _ = self.process.communicate(timeout=LONGEST)
        return self.process.returncode, out


@contextmanager
def a_sandbox(scratch: Path, *arguments: str) -> Iterator[RunningSandbox]:
    process = subprocess.Popen(
        [sys.executable, "-m", "hami_plugins.cli", "sandbox", *arguments],
        env={**os.environ, "TMPDIR": str(scratch), "HTTP_PROXY": "http://127.0.0.1:9"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    with process:
        assert process.stdout is not None
        lines: list[str] = []
        for line in process.stdout:
            lines.append(line)
            if "Ctrl-C" in line:
                break
        else:
            pytest.fail(f"the sandbox ended before: {''.join(lines)}")
        try:
            yield RunningSandbox(process, "".join(lines))
        finally:
            process.kill()


def a_pod(name: str, limits: dict[str, int], scheduler: str = "default-scheduler") -> dict[str, Any]:
    amounts = {each: str(n) for each, n in limits.items()}
    return raw_objects.pod(name, raw_objects.container(limits=amounts, image="x"), scheduler=scheduler)


def test_pods_of_three_vendors_get_devices_and_nothing_is_left(tmp_path: Path, scratch: Path) -> None:
    fleet, kubeconfig = tmp_path / "small.yaml", tmp_path / "kubeconfig"
    fleet.write_text(FLEET)
    with a_sandbox(scratch, "--fleet", str(fleet), "--kubeconfig", str(kubeconfig)) as sandbox:
        assert f"export KUBECONFIG={kubeconfig}\n" in sandbox.text
        assert stat.S_IMODE(kubeconfig.stat().st_mode) == 0o600
        assert yaml.safe_load(kubeconfig.read_text())["clusters"][0]["cluster"]["server"] == sandbox.url
        example = re.findall(r"kubectl apply -f (\S+)", sandbox.text)[0]
        sandbox.ask("POST", PODS, yaml.safe_load(Path(example).read_text()))
        sandbox.ask("POST", PODS, a_pod("hami", {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 2000}))
        sandbox.ask("POST", PODS, a_pod("neuron", {"aws.amazon.com/neuron": 4}, "volcano"))
        pod = sandbox.running("example")
        (card,) = re.findall(r"GPU-[0-9a-f-]{36}", pod["metadata"]["annotations"]["volcano.sh/vgpu-ids-new"])
        log = sandbox.ask("GET", f"{PODS}/example/log")
        assert f"NVIDIA_VISIBLE_DEVICES={card}\n" in log
        assert "CUDA_DEVICE_MEMORY_LIMIT_0=4096m\n" in log
        assert ",2000,0:" in sandbox.running("hami")["metadata"]["annotations"]["hami.io/vgpu-devices-allocated"]
        assert sandbox.running("neuron")["metadata"]["annotations"]["AWS_NEURON_IDS"].count(",") == 3
        node = sandbox.ask("GET", "/api/v1/nodes/a100-80x8-0")
        assert node["status"]["allocatable"]["volcano.sh/vgpu-number"] == "70"
        sandbox.ask("DELETE", f"{PODS}/example")
        _wait_for(lambda: len(sandbox.ask("GET", PODS)["items"]) == 2, "the pod is gone")
        children = _children(sandbox.process.pid)
        assert len(children) == 2
        code, out = sandbox.end()
    assert (code, out) == (0, "The sandbox has ended; nothing is left.\n")
    assert _alive(children) == []
    assert list(scratch.iterdir()) == []
    assert not kubeconfig.exists()


def test_on_koordinators_nodes_the_adapter_runs(scratch: Path) -> None:
    with a_sandbox(scratch, "--fleet", "koordinator") as sandbox:
        assert "Koordinator adapter" in sandbox.text
        example = re.findall(r"kubectl apply -f (\S+)", sandbox.text)[0]
        sandbox.ask("POST", PODS, yaml.safe_load(Path(example).read_text()))
        assert "scheduling.koordinator.sh/device-allocated" in sandbox.running("example")["metadata"]["annotations"]
        assert sandbox.end(signal.SIGINT)[0] == 0
    assert list(scratch.iterdir()) == []


def test_a_program_that_ends_by_itself_ends_the_sandbox_with_its_last_words(scratch: Path) -> None:
    with a_sandbox(scratch, "--fleet", "trn1.32xlarge") as sandbox:
        (server,) = _children(sandbox.process.pid)
        os.kill(server, signal.SIGKILL)
        out, _ = sandbox.process.communicate(timeout=LONGEST)
        assert sandbox.process.returncode == 2
        assert "ended by itself" in out
    assert list(scratch.iterdir()) == []


def test_a_port_that_is_taken_is_named_with_what_helps(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["sandbox", "--fleet", "t4x1", "--port", str(port)]) == 2
    said = capsys.readouterr().err
    assert f"port {port} of 127.0.0.1 cannot be used" in said
    assert "leave out --port" in said


@pytest.mark.parametrize(
    ("name", "why"), [("there", "exists and is left as it is"), ("no/folder", "cannot be written")]
)
def test_a_kubeconfig_that_cannot_be_written_is_named_and_left(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, why: str
) -> None:
    (tmp_path / "there").write_text("mine")
    assert main(["sandbox", "--fleet", "t4x1", "--kubeconfig", str(tmp_path / name)]) == 2
    said = capsys.readouterr().err
    assert f"{tmp_path / name} {why}" in said
    assert "name another file with --kubeconfig" in said
    assert (tmp_path / "there").read_text() == "mine"


def _wait_for(condition: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + LONGEST
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.1)


def _children(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _alive(pids: list[int]) -> list[int]:
    return [pid for pid in pids if Path(f"/proc/{pid}").exists()]
