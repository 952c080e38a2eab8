"""Memory of a process before, during and after each attack: ``python -m tests.integration.attacks.resident KIND``.

KIND is agent, allocator or koordinator. Takes up to ten minutes, as each attack is followed by a minute of rest.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Final

from tests.integration.attacks import sending
from tests.integration.attacks.sending import MIB, Port
from tests.integration.attacks.victims import Victim, victim

REST: Final = 60.0
"""Seconds after an attack until memory counts as kept."""

WARM_UP: Final = 30
"""How often probes, metrics and webhooks are asked for first: the first requests load code."""


def pipelined(port: Port) -> None:
    """Requests whose answers are never read."""
    with ThreadPoolExecutor(4) as four:
        list(four.map(lambda _turn: sending.pipelined(port), range(8)))


def connections(port: Port) -> None:
    """Idle connections, and such whose answer came before the body."""
    with ExitStack() as stack:
        sending.idle(port, 1_500, stack)
        sending.answered_early(port, 600, stack)


def bodies(paths: tuple[bytes, ...], unit: bytes, size: int, port: Port) -> None:
    """Large bodies from 16 connections."""
    with ThreadPoolExecutor(16) as sixteen:
        list(sixteen.map(lambda path: sending.posted(port, path, unit, size), paths))


def attacks(kind: str, process: Victim) -> Iterator[tuple[str, Callable[[], None]]]:
    """Those of ``test_ports``, and reviews of almost 3 MiB."""
    plain = Port(process.port)
    ports = {"plain": plain} | ({"TLS": Port(process.webhooks, tls=True)} if process.webhooks else {})
    for name, port in ports.items():
        yield f"unread answers, {name}", partial(pipelined, port)
        yield f"2,100 connections, {name}", partial(connections, port)
    if kind == "allocator":
        extender = (b"/extender/prioritize", b"/extender/predicate", b"/extender/onSessionOpen")
        calls = (*extender, b"/scheduler/filter", b"/scheduler/prioritize")
        for unit in (b'{"Name":"a"},', b"{},", b"[[[[]]]],"):
            yield f"60 MiB of {unit.decode()}", partial(bodies, calls, unit, 60 * MIB, plain)
        for path in (b"/scheduler/filter", b"/extender/prioritize"):
            many = partial(bodies, (path,) * 32, b'"node-of-a-cluster-00000",', 1_500_000, plain)
            yield f"32 calls of {path.decode()} of 1.5 MB", many
    if "TLS" in ports:
        reviews = (b"/webhooks/pods",) * 32
        yield "32 reviews of 2.9 MB", partial(bodies, reviews, sending.NAMES, 3 * MIB - 300_000, ports["TLS"])


def main(kind: str) -> None:
    """One row of a table for each attack."""
    with tempfile.TemporaryDirectory() as folder, victim(kind, Path(folder)) as process:
        for _ in range(WARM_UP):
            assert process.serves()
        time.sleep(REST / 4)
        for name, attack in attacks(kind, process):
            before = process.memory()
            process.forget_peak()
            attack()
            peak = process.peak()
            time.sleep(REST)
            after = process.memory()
            assert process.serves()
            figures = " | ".join(f"{each / MIB:.0f} MiB" for each in (before, peak, after))
            print(f"| {kind} | {name} | {figures} | {(after - before) / before:+.1%} |", flush=True)  # noqa: T201


if __name__ == "__main__":
    main(*sys.argv[1:])
