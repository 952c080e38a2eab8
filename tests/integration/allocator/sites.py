"""The embedded cluster with the allocator of all vendors, asked by Volcano and by kube-scheduler."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hami_plugins.allocator.handlers import EXTENDER_PATH
from hami_plugins.kube import paths
from hami_plugins.kube.client import connect_to
from hami_plugins.sandbox.apiserver import VOLCANO, ApiServer
from hami_plugins.sandbox.apiserver.kinds import ResourceKind
from hami_plugins.sandbox.volcano import EmulatedVolcano, ExtenderArguments
from tests.integration.volcano_vgpu.allocation.servers import Client
from tests.integration.volcano_vgpu.allocation.servers import Site as Shared
from tests.unit.allocator.products import MARK, settings, target, vendors_of, webhooks

__all__ = ["MARK", "Site", "site"]


class Site(Shared):
    """An API server, and allocators of all vendors."""

    def create(self, *pods: dict[str, Any]) -> list[dict[str, Any]]:
        """New pods, as the API server's webhooks left them."""
        api = connect_to(self.server.url, component="user")
        made = [dict(api.create(paths.pods("default"), each)) for each in pods]
        api.close()
        return made

    def install(self, client: Client, **told: Any) -> tuple[str, ...]:
        """Has the API server ask this replica, which has such settings; the resources that it is asked about."""
        address = client.server.webhook_address
        assert address is not None
        return self.install_at(f"https://localhost:{address[1]}", **told)

    def install_at(self, url: str, **told: Any) -> tuple[str, ...]:
        """The same for the server at that address."""
        authority = base64.b64encode((self.folder / "tls.crt").read_bytes()).decode()
        self.put(webhooks(target(namespace="allocator-system", url=url, ca=authority), **told))
        return tuple(name for spec in vendors_of(settings(**told)) for name in spec.resources.all())

    @contextmanager
    def volcano(self, client: Client) -> Iterator[None]:
        """The webhooks, and Volcano's scheduler with this replica as its extender."""
        managed = self.install(client)
        queue = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "default"}}
        self.put({**queue, "spec": {"weight": 1}, "status": {"state": "Open"}})
        extender = ExtenderArguments(url=client.plain(EXTENDER_PATH), managed=managed)
        api = connect_to(self.server.url, component="volcano")
        with EmulatedVolcano(api, period=0.02, extenders=(extender,)):
            yield
        api.close()

    def bound(self, count: int) -> Sequence[dict[str, Any]]:
        """All pods, once there are so many and all are bound."""
        found = self.server.objects("pods")
        return found if len(found) == count and all(each["spec"].get("nodeName") for each in found) else ()


@contextmanager
def site(folder: Path, *nodes: dict[str, Any], kinds: Sequence[ResourceKind] = VOLCANO) -> Iterator[Site]:
    """An embedded cluster with these nodes, and with Volcano's kinds unless others are named."""
    with ApiServer(kinds=kinds) as server:
        made = Site(server, folder)
        made.put(*nodes)
        try:
            yield made
        finally:
            made.stop()
