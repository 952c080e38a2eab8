"""The server of grants as a process of its own, and what is installed in the API server for it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import urllib3
import yaml
from urllib3.exceptions import HTTPError

from hami_plugins.cli.live.processes import DemoProcess, printed
from hami_plugins.sandbox.volcano import ExtenderArguments
from hami_plugins.vendors import volcano as vendor

NAMESPACE: Final = "volcano-system"
USER: Final = "grants"
"""Whose token the server has."""

_HERE: Final = "127.0.0.1"
_STARTED: Final = "grants_started"
_READY: Final = 200
_LOOK_SECONDS: Final = 5.0


class DemoAllocator:
    """The server in mode ``extender``, running from the start; ``root`` is where its files are."""

    def __init__(self, root: Path, kubeconfig: Path) -> None:
        self._folder = root / "grants"
        settings = {
            "listen": {"host": _HERE, "port": 0},
            "webhooks": {"host": _HERE, "port": 0},
            "certificate": {"directory": str(self._folder), "bootstrap": True, "names": [_HERE]},
            "service": {"namespace": NAMESPACE},
            "shutdownDelay": 0,
            "log": {"form": "json"},
        }
        config = root / "grants.yaml"
        config.write_text(yaml.safe_dump(settings), encoding="utf-8")
        arguments = ["grants", "--mode", "extender", "--config", str(config), "--kubeconfig", str(kubeconfig)]
        self.process = DemoProcess("server of grants", arguments, {}, root / "grants.log")
        self._pool = urllib3.PoolManager(timeout=_LOOK_SECONDS, retries=False)

    def ready(self) -> bool:
        """Whether it answers: it is the active replica, and knows the cluster."""
        address = self._told("address")
        if not address:
            return False
        try:
            return self._pool.request("GET", f"http://{address}/readyz").status == _READY
        except HTTPError:
            return False

    def stop(self) -> None:
        """Ends it; first the connection by which ``ready`` looks, for the server would wait for that."""
        self._pool.clear()
        self.process.stop()

    @property
    def url(self) -> str:
        """Where the API server reaches the webhooks."""
        return f"https://{self._told('webhooks')}"

    def webhooks(self) -> dict[str, Any]:
        """The MutatingWebhookConfiguration, as an operator has it printed. Raises ``DemoError``."""
        authority = str(self._folder / "ca.crt")
        found: dict[str, Any] = json.loads(printed("webhooks", "--url", self.url, "--ca-file", authority, "-o", "json"))
        return found

    def extender(self) -> ExtenderArguments:
        """What the scheduler's configuration says of it, as ``volcano-vgpu conf`` prints it."""
        return ExtenderArguments(url=f"http://{self._told('address')}/extender", managed=vendor.RESOURCES.all())

    def _told(self, name: str) -> str:
        """What it logged of itself when it had started; empty before."""
        lines = self.process.log.read_text(encoding="utf-8").splitlines(keepends=True)
        events = (json.loads(line) for line in lines if line.startswith("{") and line.endswith("\n"))
        return next((str(each[name]) for each in events if each.get("event") == _STARTED), "")
