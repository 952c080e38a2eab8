"""The devices of the cluster and what waits for them, read-only on a port of its own: what ``nodes`` shows.

It shows the names of pods to everybody who reaches the port, so it is off by default and listens on the loopback
address unless another is set. Only the replica that has the lease knows the cluster; the others answer 503.

A look at 5,000 nodes takes one to three seconds. So there is one at a time, in a thread of its own, outside of the
cache's lock, and then none for a while; all readers share it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final, NamedTuple

import orjson
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from hami_plugins.allocations.product import Product
from hami_plugins.allocator.locked_cache import LockedAllocationCache
from hami_plugins.config.values import PageListener
from hami_plugins.engine.decide import Decider
from hami_plugins.engine.intake import PodInfo
from hami_plugins.errors import HamiPluginsError, WireError
from hami_plugins.explain.waiting import waiting
from hami_plugins.kube.reflector import ObjectChange
from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.model.nodes import NodeEntry, NodeFacts
from hami_plugins.model.units import NodeName
from hami_plugins.occupancy.report import ClusterReport, NodeSelection, narrowed, report_of
from hami_plugins.output import nodes
from hami_plugins.output import waiting as waiting_output
from hami_plugins.output.page import frame, report_page
from hami_plugins.output.page.cluster import Heading
from hami_plugins.output.page.nodes import SERVED_SCRIPTS, PageService
from hami_plugins.plan import Planner
from hami_plugins.web.server import WebServer
from hami_plugins.wire import objects

PAGE_PATH: Final = "/"
DOCUMENT_PATH: Final = "/nodes.json"

LEAST_PAUSE: Final = 5.0
"""Seconds between two refreshes of the page, for all readers together."""

PAUSES: Final = 4
"""How many times longer than a look nothing is looked at."""

EXPLAINING: Final = 1.0
"""Seconds in which a look explains pods that wait; the others are counted."""

MOST_NODES: Final = 500
"""Nodes that the page draws, about 3 KiB each. The document has all of them."""

MOST_NAMES: Final = 8
LONGEST_NAME: Final = 100
"""How many names or patterns a reader may give, and how many characters each may have."""

REFRESH: Final = 15
"""Seconds after which the page loads itself again."""

PART: Final = 64 * 1024
"""Bytes that are sent at a time, so that a slow reader holds no more of the port's buffers."""

_LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")
_HEADERS: Final[Mapping[str, str]] = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": f"{frame.policy(*SERVED_SCRIPTS)}; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


_Render = Callable[["_Look", ClusterReport], bytes]


class _Look(NamedTuple):
    """What was seen of a cache, and when that was."""

    cache: LockedAllocationCache
    report: ClusterReport
    made_at: datetime


class NodePage:
    """From ``start`` to ``stop``. ``cache`` is the cache that answers; it raises ``HamiPluginsError`` elsewhere."""

    def __init__(
        self,
        listener: PageListener,
        product: Product,
        cache: Callable[[], LockedAllocationCache],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._product = product
        self._cache = cache
        self._clock = clock
        self._decider = Decider(product.registry)
        self._facts: dict[str, tuple[NodeName, NodeFacts]] = {}
        self._completed: dict[NodeName, tuple[NodeEntry, NodeFacts, NodeEntry]] = {}
        self._one_at_a_time = asyncio.Lock()
        self._look: _Look | None = None
        self._next = 0.0
        self._made: dict[str, tuple[_Look, tuple[str, ...], bytes]] = {}
        routes = [
            Route(PAGE_PATH, self._page, methods=["GET"]),
            Route(DOCUMENT_PATH, self._document, methods=["GET"]),
        ]
        # A site that a browser has open could have its own name lead to the loopback address, and read what is there.
        hosts = Middleware(TrustedHostMiddleware, allowed_hosts=list(_LOOPBACK))
        middleware = [hosts] if listener.host in _LOOPBACK else []
        self._server = WebServer(
            Starlette(routes=routes, middleware=middleware), host=listener.host, port=listener.port
        )

    @property
    def address(self) -> tuple[str, int]:
        """Where it is served."""
        return self._server.address

    def start(self) -> None:
        """Serves. Raises ``ConfigError`` where the address is not to be had."""
        self._server.start()

    def stop(self) -> None:
        """Ends. May be called twice."""
        self._server.stop()

    def begin(self) -> None:
        """Another cache is filled from here on, by lists that have all nodes."""
        self._facts = {}

    def node_changed(self, change: ObjectChange) -> None:
        """A node came, changed or went: the cache keeps its devices alone."""
        self._facts.pop(change.uid, None)
        if change.kind != "deleted" and change.object is not None:
            # What cannot be read the cache names among its problems.
            with suppress(WireError):
                self._facts[change.uid] = objects.node_object(change.object).name, objects.node_facts(change.object)

    async def _page(self, request: Request) -> Response:
        return await self._answered(request, "text/html; charset=utf-8", self._html)

    async def _document(self, request: Request) -> Response:
        return await self._answered(request, "application/json", self._json)

    async def _answered(self, request: Request, media: str, render: _Render) -> Response:
        names = tuple(request.query_params.getlist("name"))
        if len(names) > MOST_NAMES or any(len(each) > LONGEST_NAME for each in names):
            words = f"at most {MOST_NAMES} names of {LONGEST_NAME} characters; name=gpu-* stands for many nodes\n"
            return PlainTextResponse(words, status_code=400, headers=_HEADERS)
        try:
            async with self._one_at_a_time:
                body = await run_in_threadpool(self._body, names, media, render)
        except HamiPluginsError as error:
            words = f"{error}\nOnly the replica that has the lease knows the cluster; ask that one.\n"
            headers = {**_HEADERS, "Refresh": str(REFRESH), "Retry-After": str(REFRESH)}
            return PlainTextResponse(words, status_code=error.http_status, headers=headers)
        headers = {**_HEADERS, "Content-Length": str(len(body))}
        return StreamingResponse(_parts(body), media_type=media, headers=headers)

    def _body(self, names: tuple[str, ...], media: str, render: _Render) -> bytes:
        look = self._newest()
        made = self._made.get(media)
        if made is None or made[0] is not look or made[1] != names:
            report = narrowed(look.report, NodeSelection(names=names)) if names else look.report
            made = self._made[media] = (look, names, render(look, report))
        return made[2]

    def _newest(self) -> _Look:
        """What was seen a short while ago, of the cache that answers now."""
        cache, began = self._cache(), self._clock()
        if self._look is None or self._look.cache is not cache or began >= self._next:
            snapshot = self._snapshot(cache)
            planner = Planner(self._product.registry, self._product.rules, self._decider, now=time.time())
            found = waiting(
                map(_devices_alone, cache.unplaced()),
                snapshot,
                planner,
                blocked=cache.blocking_reason,
                spare=lambda: self._clock() - began < EXPLAINING,
            )
            report = report_of(snapshot, self._product.registry, waiting=found)
            self._look = _Look(cache, report, datetime.now(UTC))
            ended = self._clock()
            self._next = ended + max(LEAST_PAUSE, PAUSES * (ended - began))
        return self._look

    def _snapshot(self, cache: LockedAllocationCache) -> ClusterSnapshot:
        """The cache's nodes with what it does not keep of them: whether they are ready, their taints, their labels."""
        facts = dict(tuple(self._facts.values()))
        found = cache.snapshot()
        completed = {
            entry.name: self._complete(entry, facts[entry.name]) for entry in found.nodes if entry.name in facts
        }
        self._completed = completed
        nodes = tuple(completed[each.name][2] if each.name in completed else each for each in found.nodes)
        return replace(found, nodes=nodes)

    def _complete(self, entry: NodeEntry, facts: NodeFacts) -> tuple[NodeEntry, NodeFacts, NodeEntry]:
        """An entry that has not changed stays the same object, so that what is known of it is not worked out again."""
        known = self._completed.get(entry.name)
        if known is not None and known[0] is entry and known[1] is facts:
            return known
        return entry, facts, replace(entry, facts=facts)

    def _html(self, look: _Look, report: ClusterReport) -> bytes:
        service = PageService(
            most=MOST_NODES,
            elsewhere=f"add ?name=NODE or ?name=gpu-* to the address for others; {DOCUMENT_PATH} has all",
            refresh=REFRESH,
        )
        page = report_page(
            report,
            Heading(title="Nodes and devices", source="the allocator", made_at=f"{look.made_at:%Y-%m-%d %H:%M:%S} UTC"),
            waiting=waiting_output.panels(report.waiting),
            waiting_more=waiting_output.more_words(report.waiting),
            service=service,
        )
        return page.encode()

    def _json(self, _look: _Look, report: ClusterReport) -> bytes:
        return orjson.dumps(nodes.document(report, self._product.registry))


def _devices_alone(intake: PodInfo) -> PodInfo:
    """A pod without its plain requests: the cache does not follow the pods that hold CPU and memory alone."""
    submitted = replace(intake.submitted, constraints=replace(intake.submitted.constraints, requests=()))
    return replace(intake, submitted=submitted).with_constraints(replace(intake.demand.constraints, requests=()))


def _parts(body: bytes) -> Iterator[bytes]:
    whole = memoryview(body)
    for at in range(0, len(body), PART):
        yield bytes(whole[at : at + PART])
