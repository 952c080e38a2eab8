"""``demo`` as people run it: our programs as processes, sockets, signals, and nothing left when it is over."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import pytest

from hami_plugins.cli import main
from hami_plugins.cli.live import processes
from hami_plugins.cli.live.signals import DemoError
from tests.waiting import wait_for

KEPT: Final = Path(__file__).with_name("demo.txt")
LONGEST: Final = 240.0
"""Seconds that a demo may take on a machine that is kept busy by other tests; by itself it takes a few."""

ELSEWHERE: Final = {
    "HTTP_PROXY": "http://127.0.0.1:9",
    "HAMI_PLUGINS__VOLCANO_VGPU__DEVICE_SPLIT_COUNT": "3",
    "HAMI_PLUGINS__ALLOCATOR__VOLCANO__MODE": "webhook",
    "NODE_NAME": "another",
}
"""Variables in the user's environment that the demo must ignore."""

_VARIES: Final = (
    (r"(?m)^ *\d+\.\d s  ", "  0.0 s  "),
    (r"\bthese \d+\.\d s", "these 0.0 s"),
    (r"127\.0\.0\.1:\d+", "127.0.0.1:0"),
    (r"(agent|again as|allocator) \d+", r"\1 0"),
    (r"\d+ (to register|to serve|for the failed)", r"N \1"),  # a write that came too late is tried again, and counts
    (r"file://\S+/", "file:///"),
    (r"\bgpu-\d", "gpu-N"),  # which half of the gang is on which of two equal nodes is chance
    (r"GPU-[0-9a-f-]{36}", "GPU-X"),
)
"""What differs from run to run."""


@pytest.fixture
def scratch() -> Iterator[Path]:
    """A place for temporary files of the demo; short, for sockets are in it."""
    root = Path(tempfile.mkdtemp(prefix="demo-"))
    yield root
    shutil.rmtree(root)


class Demo:
    """A demo that runs, its output being read."""

    def __init__(self, page: Path, scratch: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "hami_plugins.cli", "demo", "--html", str(page)],
            env={**os.environ, "TMPDIR": str(scratch), **ELSEWHERE},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def agents(self) -> list[int]:
        """The pids of both agents, once they have registered their cards."""
        assert self.process.stdout is not None
        found: list[int] = []
        for line in self.process.stdout:
            found += map(int, re.findall(r"gpu-\d: agent (\d+) has registered", line))
            if len(found) == 2:
                return found
        pytest.fail(f"the demo ended before: {self.end()}")

    def end(self) -> tuple[int, str, str]:
        """How it ends: exit code, and what is left of its output."""
        out, err = self.process.communicate(timeout=LONGEST)
        return self.process.returncode, out, err


@pytest.fixture
def demo(tmp_path: Path, scratch: Path) -> Iterator[Demo]:
    """A demo that has just begun."""
    running = Demo(tmp_path / "demo.html", scratch)
    with running.process:
        yield running
        running.process.kill()


def test_the_story_is_the_one_that_is_kept_and_nothing_is_left(
    demo: Demo, tmp_path: Path, scratch: Path, *, update_golden: bool
) -> None:
    code, out, err = demo.end()
    assert (code, err) == (0, "")
    _is_put_right(out)
    live = _stable(out[out.index("Live: ") :])
    if update_golden:
        KEPT.write_text(live, encoding="utf-8")
    assert live == KEPT.read_text(encoding="utf-8"), "pytest --update-golden keeps what is told now"
    assert "research/giant: does not fit" in out
    wrong = "which node gpu-1 does not report"
    assert wrong in (tmp_path / "demo-alone.html").read_text(encoding="utf-8")
    assert "llama-finetune-master-0" in (tmp_path / "demo-live.html").read_text(encoding="utf-8")
    assert list(scratch.iterdir()) == []
    assert _alive(map(int, re.findall(r"(?:agent|again as|allocator) (\d+)", out))) == []


def test_ctrl_c_ends_the_agents_too_and_leaves_nothing(demo: Demo, scratch: Path) -> None:
    agents = demo.agents()
    demo.process.send_signal(signal.SIGINT)
    assert demo.end()[0] == 130
    assert _alive(agents) == []
    assert list(scratch.iterdir()) == []


def test_agents_do_not_outlive_a_demo_that_is_killed_outright(demo: Demo) -> None:
    agents = demo.agents()
    demo.process.kill()
    wait_for(lambda: not _alive(agents), "the kernel ends the agents")


def test_an_agent_that_ends_by_itself_ends_the_demo_with_its_last_words(demo: Demo, scratch: Path) -> None:
    os.kill(demo.agents()[1], signal.SIGTERM)
    code, _, err = demo.end()
    assert code == 2
    assert "ended by itself" in err
    assert "signal_received" in err
    assert list(scratch.iterdir()) == []


def test_a_program_that_cannot_print_what_it_should_is_named_with_its_last_words() -> None:
    with pytest.raises(DemoError, match=r"volcano-vgpu nothing ended with exit code 2:\n(?s:.)*No such command"):
        processes.printed("nothing")


def test_where_no_unix_socket_can_be_made_the_rest_is_shown_and_the_reason_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    deep = tmp_path / ("x" * 120)
    deep.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    assert main(["demo", "--html", str(tmp_path / "demo.html")]) == 2
    said = capsys.readouterr()
    assert "24 of 29 pods placed" in said.out
    assert "set TMPDIR" in said.err
    assert (tmp_path / "demo.html").exists()
    assert list(deep.iterdir()) == []


def _is_put_right(out: str) -> None:
    """By Volcano alone two of the four get cards of the other node, and from the allocator none does."""
    rows = [re.split(r" {2,}", line) for line in out.splitlines() if line.startswith("llama-finetune-")]
    assert len(rows) == 4
    foreign = [pod for pod, node, cards, *_ in rows if not cards.startswith(node.removeprefix("on "))]
    assert len(foreign) == 2
    assert [pod for pod, _, _, container, *_ in rows if container == "refused"] == foreign
    for *_, node, cards, container in rows:
        assert re.fullmatch(rf"{node.removeprefix('on ')} #\d #\d", cards)
        assert container == "runs"


def _stable(text: str) -> str:
    for pattern, words in _VARIES:
        text = re.sub(pattern, words, text)
    return text


def _alive(pids: Iterable[int]) -> list[int]:
    """Those of the processes that run."""
    return [pid for pid in pids if _runs(pid)]


def _runs(pid: int) -> bool:
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
        return state != "Z"  # its parent may not reap it
    return False
