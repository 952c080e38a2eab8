"""The adapter's server in a process of its own."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from hami_plugins.cli.kit.memory import undisturbed
from hami_plugins.kube.client import connect_to
from hami_plugins.kube.request_metrics import api_requests
from hami_plugins.observe import logging
from hami_plugins.vendors import builtin
from koordinator_adapter.server.app import AdapterServer
from koordinator_adapter.server.metrics import AdapterMetrics
from koordinator_adapter.server.settings import AdapterSettings
from tests.bench.processes import serve


class Server:
    """One replica, once it knows the address of the API server."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running: list[AdapterServer] = []

    def start(self, *, url: str) -> Any:
        """Begin; the port of the webhooks."""
        settings = AdapterSettings.model_validate(
            {
                "listen": {"host": "127.0.0.1", "port": 0},
                "webhooks": {"host": "127.0.0.1", "port": 0},
                "certificate": {"directory": str(self._folder)},
                "service": {"namespace": "default"},
                "devices": {"nodeResources": "always"},
                "injection": {"mode": "always"},
                "shutdownDelay": 0,
            }
        )
        metrics = AdapterMetrics()
        api = replace(connect_to(url, component="adapter"), on_request=api_requests(metrics.metrics))
        server = AdapterServer(settings, api, builtin(), metrics=metrics, identity="bench", filling=undisturbed)
        server.start()
        self._running.append(server)
        assert server.webhook_address is not None
        return server.webhook_address[1]

    def stop(self) -> None:
        """End."""
        for server in self._running:
            server.stop()


def main() -> None:
    """Answer until the bench ends."""
    logging.configure("error", "json")
    server = Server(Path(sys.argv[1]))
    serve({"start": server.start})
    server.stop()


if __name__ == "__main__":
    main()
