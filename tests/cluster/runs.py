"""What was green on which peers, as a file: a run with ``--update-golden`` writes down the modules that it ran whole.

``tests/golden/support_page.py`` makes the support matrix of it.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from datetime import date
from pathlib import Path
from typing import Final, TypedDict

import pytest

from tests.cluster.peers import Module

FILE: Final = Path(__file__).with_name("runs.json")
PEERS: Final[Mapping[str, tuple[str, str]]] = {
    "control_plane": ("Kubernetes", "kubernetes"),
    "node": ("containerd", "containerd"),
    "volcano": ("Volcano", "volcano"),
    "koordinator": ("Koordinator", "koordinator"),
    "koordlet": ("koordlet", "koordinator"),
    "prometheus": ("Prometheus", "prometheus"),
    "karpenter": ("Karpenter", "karpenter"),
    "descheduler": ("descheduler", "descheduler"),
    "cert_manager": ("cert-manager", "cert_manager"),
    "kueue": ("Kueue", "kueue"),
    "operator": ("Prometheus Operator", "prometheus_operator"),
}
"""By fixture, which peer a test has: its name, and the folder that its module's name begins with."""


class Run(TypedDict):
    """A module of which every test passed: on which day, how many, and the releases of the peers that they had."""

    module: str
    day: str
    passed: int
    peers: dict[str, str]


def runs() -> list[Run]:
    """The last green run of each module with each set of peers."""
    found: list[Run] = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else []
    return found


def merged(known: Iterable[Run], fresh: Iterable[Run]) -> list[Run]:
    """Runs in the place of those of the same module with the same peers."""
    found = {(run["module"], *sorted(run["peers"].items())): run for run in (*known, *fresh)}
    return [found[key] for key in sorted(found)]


def write(fresh: Iterable[Run]) -> None:
    """Put green runs in the place of the last ones with the same peers."""
    FILE.write_text(json.dumps(merged(runs(), fresh), indent=1) + "\n", encoding="utf-8")


class Tally:
    """A plugin of pytest that counts by module: the tests that there are, those that passed, and their peers."""

    def __init__(self, modules: Iterable[Module], day: date) -> None:
        self._releases = {module.folder.partition("-")[0]: module.release.rpartition("@v")[2] for module in modules}
        self._day = day
        self._collected: Counter[str] = Counter()
        self._passed: Counter[str] = Counter()
        self._fixtures: defaultdict[str, set[str]] = defaultdict(set)

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Before ``-k`` takes some away: a module of which a part ran was not run whole."""
        for item in items:
            self._collected[item.path.stem] += 1
            self._fixtures[item.path.stem].update(getattr(item, "fixturenames", ()))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A test has passed when its call has; a set-up or an end that fails takes it back."""
        module = Path(report.location[0]).stem
        if report.when == "call":
            self._passed[module] += report.passed
        elif report.failed:
            self._passed[module] -= 1

    def whole(self) -> list[Run]:
        """The modules of which every test passed before a real cluster."""
        return [
            Run(module=module, day=self._day.isoformat(), passed=count, peers=self._peers(module))
            for module, count in self._collected.items()
            if self._passed[module] == count and "control_plane" in self._fixtures[module]
        ]

    def _peers(self, module: str) -> dict[str, str]:
        had = (peer for fixture, peer in PEERS.items() if fixture in self._fixtures[module])
        return {name: self._releases[folder] for name, folder in had}
