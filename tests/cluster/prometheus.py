"""The real Prometheus: it scrapes addresses of this machine and evaluates rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import urllib3
import yaml

from tests.cluster.api import Object
from tests.cluster.etcd import healthy
from tests.cluster.kubernetes import ControlPlane
from tests.cluster.ports import free_port
from tests.cluster.processes import Component


class Prometheus:
    """Not started yet. ``targets`` are ports of this machine with the labels that their pods would have.

    ``groups`` are those of a PrometheusRule. Every second it scrapes and evaluates.
    """

    def __init__(self, plane: ControlPlane, targets: Mapping[int, Mapping[str, str]], groups: Sequence[Object]) -> None:
        folder = plane.machine.root / "prometheus"
        folder.mkdir(exist_ok=True)
        (folder / "rules.yaml").write_text(yaml.safe_dump({"groups": list(groups)}))
        pods = [
            {"targets": [f"127.0.0.1:{port}"], "labels": {**labels, "instance": labels["pod"]}}
            for port, labels in targets.items()
        ]
        configuration = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(folder / "rules.yaml")],
            "scrape_configs": [{"job_name": "pods", "static_configs": pods}],
        }
        (folder / "prometheus.yaml").write_text(yaml.safe_dump(configuration))
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        arguments = [
            str(plane.programs["prometheus"]),
            f"--config.file={folder / 'prometheus.yaml'}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}",
        ]
        ready = f"{self.url}/-/ready"
        self.component = Component(plane.machine, "prometheus", arguments, ready=lambda: healthy(ready))

    def ask(self, path: str, **query: str) -> Any:
        """The data of an answer of the HTTP API; ``path`` is what follows ``/api/v1/``."""
        with urllib3.PoolManager(retries=False, timeout=10) as pool:
            return pool.request("GET", f"{self.url}/api/v1/{path}", fields=query).json()["data"]

    def targets(self) -> dict[str, str]:
        """Whether each pod answers: ``up``, ``down`` or ``unknown``."""
        return {each["labels"]["pod"]: each["health"] for each in self.ask("targets")["activeTargets"]}

    def alerts(self) -> dict[str, Object]:
        """The alerts that are pending or firing, by name."""
        return {each["labels"]["alertname"]: each for each in self.ask("alerts")["alerts"]}

    def rules(self) -> dict[str, Object]:
        """Every rule, by its name."""
        return {rule["name"]: rule for group in self.ask("rules")["groups"] for rule in group["rules"]}
