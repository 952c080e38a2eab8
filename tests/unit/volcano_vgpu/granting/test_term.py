"""What ends by time while a replica is the active one."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

from hami_plugins.errors import KubeError
from hami_plugins.kube.port import Page, Selection, WatchEvent
from hami_plugins.ledger.answers import Granted
from hami_plugins.model.units import NodeName
from hami_plugins.vendors.volcano import SPEC
from tests.unit.volcano_vgpu.granting.cluster import a_node, a_pod
from volcano_vgpu.granting.metrics import GrantMetrics
from volcano_vgpu.granting.settings import load
from volcano_vgpu.granting.term import Term


class Quiet:
    """An API server with one node, on which nothing happens. Without ``told`` its lists never end."""

    def __init__(self, *, told: bool = True) -> None:
        self._told = told

    def list_pages(
        self, selection: Selection, *, version: str = "", stop: threading.Event | None = None, page_size: int = 500
    ) -> Iterator[Page]:
        assert stop is not None
        if not self._told:
            stop.wait()
            raise KubeError("it was given up")
        yield Page((a_node(),) if selection.kind == "Node" else (), "1")

    def watch(self, selection: Selection, *, since: str, stop: threading.Event, timeout: float) -> Iterator[WatchEvent]:
        stop.wait()
        return iter(())


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_what_is_promised_and_never_comes_ends_and_is_counted() -> None:
    now, metrics = [0.0], GrantMetrics()
    term = Term(Quiet(), load("", {}), SPEC, metrics=metrics, clock=lambda: now[0])
    assert "has not told of all nodes yet" in term.check()
    term.start()
    until(lambda: term.ready)
    assert term.check() == ""
    intake = term.books.intake(a_pod())
    assert isinstance(term.books.reserve(NodeName("n1"), intake), Granted)
    now[0] = 90.0
    until(lambda: metrics.metrics.value("assumptions_expired_total", state="reserved"))
    assert term.books.statistics.reservations == 0
    term.stop()


def test_a_term_that_ends_before_the_cluster_is_known_just_ends() -> None:
    term = Term(Quiet(told=False), load("", {}), SPEC, metrics=GrantMetrics())
    term.start()
    assert not term.ready
    term.stop()
    assert not term.ready
