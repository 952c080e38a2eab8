"""A product's server as a process of its own, and what is installed in the API server for it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

import urllib3
import yaml
from urllib3.exceptions import HTTPError

from hami_plugins.allocator.handlers import EXTENDER_PATH, SCHEDULER_PATH
from hami_plugins.cli.live.processes import DemoProcess, printed
from hami_plugins.kube.port import KubeApi
from hami_plugins.sandbox.apiserver import ApiServer
from hami_plugins.sandbox.volcano import ExtenderArguments
from hami_plugins.vendors import awsneuron
from hami_plugins.vendors import volcano as vendor

NAMESPACE: Final = "volcano-system"

_HERE: Final = "127.0.0.1"
_READY: Final = 200
_LOOK_SECONDS: Final = 5.0
_NO_SETTINGS: Final[Mapping[str, Any]] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerProgram:
    """Which program it is: the product, its command, and what it logs when it has started.

    ``user`` is whose token it has, ``managed`` are the resources that Volcano's extender asks it about (none: it is not
    an extender).
    """

    what: str
    user: str
    product: str
    command: tuple[str, ...]
    started: str
    managed: tuple[str, ...] = ()


ALLOCATOR: Final = ServerProgram(
    what="allocator",
    user="allocator",
    product="allocator",
    command=("run",),
    started="allocator_started",
    managed=(*vendor.RESOURCES.all(), *awsneuron.SPEC.resources.all()),
)
KOORDINATOR: Final = ServerProgram(
    what="Koordinator adapter",
    user="koordinator-adapter",
    product="koordinator",
    command=("serve",),
    started="adapter_started",
)


class DemoServer:
    """The server, running from the start until its context ends; ``root`` is where its files are.

    ``chosen`` are settings of its own product.
    """

    def __init__(
        self, root: Path, server: ApiServer, program: ServerProgram, *, chosen: Mapping[str, Any] = _NO_SETTINGS
    ) -> None:
        self.program = program
        self._folder = root / program.user
        settings = {
            "listen": {"host": _HERE, "port": 0},
            "webhooks": {"host": _HERE, "port": 0},
            "certificate": {"directory": str(self._folder), "bootstrap": True, "names": [_HERE]},
            "service": {"namespace": NAMESPACE},
            "shutdownDelay": 0,
            "log": {"form": "json"},
            **chosen,
        }
        config = root / f"{program.user}.yaml"
        config.write_text(yaml.safe_dump(settings), encoding="utf-8")
        kubeconfig = server.kubeconfig(root / f"{program.user}.kubeconfig", token=program.user)
        arguments = [*program.command, "--config", str(config), "--kubeconfig", str(kubeconfig)]
        log = root / f"{program.user}.log"
        self.process = DemoProcess(program.what, arguments, {}, log, product=program.product)
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

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Ends it; first the connection by which ``ready`` looks, for the server would wait for that."""
        self._pool.clear()
        self.process.stop()

    @property
    def url(self) -> str:
        """Where the API server reaches the webhooks."""
        return f"https://{self._told('webhooks')}"

    def install(self, api: KubeApi) -> None:
        """Creates its webhook configurations, one or a list, as an operator has them printed. Raises ``DemoError``."""
        authority = str(self._folder / "ca.crt")
        arguments = ("webhooks", "--url", self.url, "--ca-file", authority, "-o", "json")
        found = json.loads(printed(*arguments, product=self.program.product))
        for each in found.get("items", [found]):
            api.create(f"/apis/{each['apiVersion']}/{str(each['kind']).lower()}s", each)

    def extender(self) -> ExtenderArguments:
        """What the scheduler's configuration says of it, as its command ``conf`` prints it."""
        url = f"http://{self._told('address')}{EXTENDER_PATH}"
        return ExtenderArguments(url=url, managed=self.program.managed)

    def scheduler_url(self) -> str:
        """Where kube-scheduler finds it as its extender (``urlPrefix``)."""
        return f"http://{self._told('address')}{SCHEDULER_PATH}"

    def _told(self, name: str) -> str:
        """What it logged of itself when it had started; empty before."""
        lines = self.process.log.read_text(encoding="utf-8").splitlines(keepends=True)
        events = (json.loads(line) for line in lines if line.startswith("{") and line.endswith("\n"))
        return next((str(each[name]) for each in events if each.get("event") == self.program.started), "")
