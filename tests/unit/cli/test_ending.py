"""Signals during the demo: noted at once, heeded between two steps."""

from __future__ import annotations

import os
import signal
from threading import Thread

import pytest

from hami_plugins.cli.live.signals import DemoError, Ending

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def test_a_signal_is_heeded_when_somebody_looks() -> None:
    with Ending() as ending:
        ending.check()
        os.kill(os.getpid(), signal.SIGTERM)
        with pytest.raises(SystemExit) as ended:
            ending.check()
    assert ended.value.code == 128 + signal.SIGTERM


def test_ctrl_c_ends_a_wait() -> None:
    def pressed() -> bool:
        os.kill(os.getpid(), signal.SIGINT)
        return False

    with Ending() as ending, pytest.raises(KeyboardInterrupt):
        ending.wait_for(pressed, "nothing", seconds=60)


def test_ctrl_c_counts_also_when_the_wait_is_over() -> None:
    def pressed() -> bool:
        os.kill(os.getpid(), signal.SIGINT)
        return True

    with Ending() as ending, pytest.raises(KeyboardInterrupt):
        ending.wait_for(pressed, "nothing", seconds=60)


def test_afterwards_signals_do_what_they_did() -> None:
    before = [signal.getsignal(number) for number in SIGNALS]
    with Ending():
        assert all(signal.getsignal(number) != was for number, was in zip(SIGNALS, before, strict=True))
    assert [signal.getsignal(number) for number in SIGNALS] == before


def test_what_does_not_come_is_named() -> None:
    with Ending() as ending, pytest.raises(DemoError, match=r"not within 0 s: the sun rises; is this machine busy\?"):
        ending.wait_for(lambda: False, "the sun rises", seconds=0)


def test_in_another_thread_signals_are_left_alone() -> None:
    before = [signal.getsignal(number) for number in SIGNALS]
    found: list[list[object]] = []

    def enter() -> None:
        with Ending():
            found.append([signal.getsignal(number) for number in SIGNALS])

    thread = Thread(target=enter)
    thread.start()
    thread.join()
    assert found == [before]
