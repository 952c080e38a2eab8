"""Programs on the card under HAMi-core, and what is missing on a machine to run them."""

from __future__ import annotations

import ctypes
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.hardware import rows
from tests.hardware.rows import Card
from volcano_vgpu.core.edits import cache_name

LOCKS: Final = Path("/tmp/vgpulock")  # noqa: S108 - HAMi-core's own path
ANSWER_SECONDS: Final = 60
LEAST_MEMORY: Final = 8192
"""MiB that the card needs to have."""

WORKER: Final = Path(__file__).with_name("worker.py")


def missing(library: Path | None) -> list[str]:
    """What has to be there before anything can be checked, with what to do."""
    found: list[str] = []
    if library is None:
        found.append("--libvgpu PATH is not given: build HAMi-core on this machine, and name its libvgpu.so")
    elif not library.is_file() or library.read_bytes()[:4] != b"\x7fELF":
        found.append(f"--libvgpu {library}: not a shared library; build HAMi-core on this machine")
    if sys.platform != "linux":
        found.append("Linux")
    if shutil.which("nvidia-smi") is None:
        found.append("nvidia-smi is not in PATH: install NVIDIA's driver")
    if importlib.util.find_spec("pynvml") is None:
        found.append("the package nvidia-ml-py: pip install 'hami-plugins[nvidia]'")
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        found.append(f"the CUDA driver library: {error}")
    return found or _without_card()


def _without_card() -> list[str]:
    try:
        card = listed()[0]
    except (OSError, ValueError, IndexError, subprocess.SubprocessError) as error:
        return [f"nvidia-smi lists no card: {error}"]
    return [] if card.memory >= LEAST_MEMORY else [f"a card with {LEAST_MEMORY} MiB; the first one has {card.memory}"]


def listed(env: Mapping[str, str] | None = None) -> tuple[Card, ...]:
    """The cards as ``nvidia-smi`` lists them, in this environment."""
    command = ["nvidia-smi", f"--query-gpu={rows.QUERY}", "--format=csv,noheader,nounits"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=ANSWER_SECONDS, check=True)
    return rows.cards(done.stdout)


class Slice:
    """A container as HAMi-core sees one: a directory for its region, and variables with its limits."""

    def __init__(self, library: Path, root: Path, name: str, *, memory: int, cores: int = 0) -> None:
        self.name = f"{name}_main"
        self.directory = root / self.name
        self.directory.mkdir(parents=True)
        LOCKS.mkdir(exist_ok=True)
        region = self.directory / cache_name(self.name)
        self.env = {
            **os.environ,
            "LD_PRELOAD": str(library),
            "CUDA_DEVICE_MEMORY_LIMIT_0": f"{memory}m",
            "CUDA_DEVICE_MEMORY_SHARED_CACHE": str(region),
            "LIBCUDA_LOG_LEVEL": "1",
        }
        if cores:
            self.env |= {"CUDA_DEVICE_SM_LIMIT": str(cores), "GPU_CORE_UTILIZATION_POLICY": "force"}


class Program:
    """A worker that runs; calls are its methods."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.pid = process.pid

    def call(self, name: str, *arguments: int) -> list[int]:
        """The answer. Raises ``RuntimeError`` where the program has ended."""
        if self._process.stdin is None or self._process.stdout is None:
            raise RuntimeError("the worker has no pipes")
        self._process.stdin.write(json.dumps([name, *arguments]) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the worker ended at {name} with code {self._process.wait()}")
        found: list[int] = json.loads(line)
        return found


@contextmanager
def running(env: Mapping[str, str] | None = None) -> Iterator[Program]:
    """A worker in this environment, with a context."""
    with subprocess.Popen(
        [sys.executable, str(WORKER)], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            program = Program(process)
            code = program.call("begin")[0]
            if code:
                raise RuntimeError(f"the worker has no context: CUDA error {code}")
            yield program
        finally:
            process.kill()
