"""Processes that run until a signal ends them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import os, signal, sys, time
import structlog
from hami_plugins.cli.kit.service import stop_on_signals
from hami_plugins.observe import logging

logging.configure("info", "json")
stop = stop_on_signals()
held = {"event": stop._cond, "log": structlog.get_logger("x").bind()._logger._lock}[sys.argv[1]]
with held:
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(0.2)  # a handler of Python's would run here
sys.exit(0 if stop.wait(20) else 1)
"""


@pytest.mark.parametrize("held", ["event", "log"])
def test_a_signal_that_comes_while_the_main_thread_holds_a_lock_ends_the_process(held: str) -> None:
    command = [sys.executable, "-c", SCRIPT, held]
    done = subprocess.run(command, cwd=Path.cwd(), timeout=60, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "signal_received" in done.stdout + done.stderr


SERVED = """
import os, signal, sys
from hami_plugins.cli.kit.service import serve

class Process:
    addresses = {}

    def start(self):
        print("interval", sys.getswitchinterval())
        os.kill(os.getpid(), signal.SIGTERM)

    def stop(self):
        pass

sys.exit(serve(Process(), "process"))
"""


def test_a_thread_that_computes_lets_the_one_that_answers_go_first_within_two_milliseconds() -> None:
    command = [sys.executable, "-c", SERVED]
    done = subprocess.run(command, cwd=Path.cwd(), timeout=60, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (interval,) = [float(line.split()[1]) for line in done.stdout.splitlines() if line.startswith("interval")]
    assert interval <= 0.002
