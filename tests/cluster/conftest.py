"""Fixtures of the real cluster: one for each worker of a run, started as tests ask for it, gone at the end.

A run has several workers, because most tests wait for something most of the time. A module runs whole on one worker, so
each worker has its own machine and starts only what its modules need.
"""

from __future__ import annotations

import datetime as dt
import json
import re
import secrets
import shutil
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.cluster import building, peers, runs
from tests.cluster.agents import NodeAgent, Numbers, card
from tests.cluster.koordinator import Koordinator
from tests.cluster.kubernetes import NODE, ControlPlane
from tests.cluster.machine import Machine, leftovers
from tests.cluster.node import Node
from tests.cluster.peers import BuildError
from tests.cluster.processes import Component
from tests.cluster.slices import wait_serving
from tests.cluster.volcano import Volcano

LOGS = Path("build") / "cluster-logs"
LONGEST = (
    "test_allocator.py",
    "test_dockerfile.py",
    "test_newcomer.py",
    "test_charts_installed.py",
    "test_koordinator_scheduling.py",
    "test_charts_node.py",
    "test_charts_allocations.py",
    "test_agent_numbers.py",
    "test_agent_restarts.py",
    "test_neuron_allocator.py",
    "test_forged_allocations.py",
)
"""The modules that take minutes begin first, so that no worker is left alone with one at the end."""

_OF_CLIENT = "test_clients_"
"""What precedes the name of a client in that of its module."""

MACHINE = pytest.StashKey[Machine]()
PLANE = pytest.StashKey[ControlPlane]()
NUMBERS = pytest.StashKey[Numbers]()
TALLY = pytest.StashKey[runs.Tally]()
GREEN = pytest.StashKey[list[runs.Run]]()


@pytest.fixture(scope="session")
def programs() -> Mapping[str, Path]:
    """The programs that ``make test-cluster`` has built."""
    try:
        return building.programs()
    except BuildError as error:
        pytest.exit(str(error), returncode=pytest.ExitCode.USAGE_ERROR)


@pytest.fixture(scope="session")
def machine(programs: Mapping[str, Path], request: pytest.FixtureRequest) -> Iterator[Machine]:
    """The private machine that everything runs on. Fails the run when anything of it is left at the end."""
    made = Machine(hosts=[NODE], programs=list(programs.values()))
    request.config.stash[MACHINE] = made
    try:
        yield made
    finally:
        del request.config.stash[MACHINE]
        made.close()
    left = leftovers(made.root)
    assert not left, "left behind by the cluster:\n" + "\n".join(left)


@pytest.fixture(scope="session")
def control_plane(
    machine: Machine, programs: Mapping[str, Path], request: pytest.FixtureRequest
) -> Iterator[ControlPlane]:
    """etcd, kube-apiserver and kube-controller-manager."""
    plane = ControlPlane(machine, programs)
    request.config.stash[PLANE] = plane
    yield plane
    del request.config.stash[PLANE]
    plane.close()


@pytest.fixture(scope="session")
def node(control_plane: ControlPlane) -> Node:
    """containerd and a kubelet; the node is Ready."""
    return Node(control_plane)


@pytest.fixture(scope="session")
def kube_scheduler(control_plane: ControlPlane) -> Component:
    """The default scheduler, running."""
    scheduler = control_plane.scheduler()
    scheduler.start()
    return scheduler


@pytest.fixture(scope="session")
def volcano(control_plane: ControlPlane) -> Volcano:
    """Volcano's scheduler with its deviceshare plugin, its controllers and its webhooks."""
    return Volcano(control_plane)


@pytest.fixture(scope="session")
def koordinator(control_plane: ControlPlane) -> Koordinator:
    """Koordinator's scheduler and its manager."""
    return Koordinator(control_plane)


@pytest.fixture(autouse=True)
def reunited(request: pytest.FixtureRequest) -> Iterator[None]:
    """After a test that took the API server away, who follows it is back for the next one."""
    yield
    if plane := request.config.stash.get(PLANE, None):
        plane.reunite()


@pytest.fixture
def namespace(control_plane: ControlPlane) -> Iterator[str]:
    """A namespace of the test's own; at its end the pods in it are gone."""
    name = f"test-{secrets.token_hex(3)}"
    control_plane.create_namespace(name)
    yield name
    control_plane.clear_namespace(name)
    control_plane.api.delete(f"/api/v1/namespaces/{name}")


@pytest.fixture(scope="module")
def agent(node: Node, volcano: Volcano) -> Iterator[NodeAgent]:
    """The node's agent with six cards of ten slots each, before a real Volcano; a test leaves it running so."""
    found = NodeAgent(node)
    found.cards(*map(card, range(1, 7)))
    try:
        found.start(60)
        wait_serving(node.plane)
        yield found
    finally:
        found.stop()


@pytest.fixture(scope="session")
def numbers(request: pytest.FixtureRequest) -> Numbers:
    """Takes what is measured; at the end it is printed, and kept in ``build/cluster-numbers.md``."""
    return request.config.stash[NUMBERS]


def pytest_configure(config: pytest.Config) -> None:
    config.stash[NUMBERS] = Numbers()
    config.stash[GREEN] = []
    try:
        chosen = peers.modules()
    except BuildError as error:
        raise pytest.UsageError(str(error)) from error
    config.stash[TALLY] = runs.Tally(chosen, dt.datetime.now(dt.UTC).date())
    config.pluginmanager.register(config.stash[TALLY])


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Tests whose programs are not built are not collected: of koordlet, and of clients that are not chosen."""
    built = {program.name for program in peers.koordinator().programs}
    if collection_path.name == "test_koordlet.py" and "koordlet" not in built:
        return True
    client = collection_path.stem.removeprefix(_OF_CLIENT)
    chosen = {module.folder for module in peers.clients()}
    return True if client != collection_path.stem and client not in chosen else None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: LONGEST.index(item.path.name) if item.path.name in LONGEST else len(LONGEST))


def pytest_sessionfinish(session: pytest.Session) -> None:
    green = session.config.stash[TALLY].whole()
    if (output := getattr(session.config, "workeroutput", None)) is not None:
        output["numbers"] = session.config.stash[NUMBERS].rows
        output["green"] = green
    elif session.config.getoption("update_golden"):
        runs.write([*session.config.stash[GREEN], *green])


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    for what, row in getattr(node, "workeroutput", {}).get("numbers", {}).items():
        node.config.stash[NUMBERS].add(what, *row)
    node.config.stash[GREEN] += getattr(node, "workeroutput", {}).get("green", [])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if config.stash[NUMBERS].rows:
        table = config.stash[NUMBERS].table()
        terminalreporter.section("measured")
        terminalreporter.write_line(table)
        LOGS.parent.mkdir(exist_ok=True)
        (LOGS.parent / "cluster-numbers.md").write_text(table + "\n")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        keep_logs(item)
    return report


def keep_logs(item: pytest.Item) -> None:
    """Copy what the components and the pods printed, and the objects, to a folder named after the test."""
    machine = item.config.stash.get(MACHINE, None)
    if machine is None:
        return
    target = LOGS / re.sub(r"[^\w.-]+", "_", item.nodeid)
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(machine.logs, target)
    for log in (machine.root / "var/log/pods").glob("*/*/*.log"):
        kept = target / "pods" / log.relative_to(machine.root / "var/log/pods")
        kept.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(log, kept)
    if plane := item.config.stash.get(PLANE, None):
        for kind, found in plane.state().items():
            (target / f"{kind}.json").write_text(json.dumps(found, indent=1))
