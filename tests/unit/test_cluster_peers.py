"""Which releases of its peers a run of the real cluster has, and what of it is written down."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.cluster import conftest, peers, runs, turn
from tests.cluster.peers import BuildError
from tests.cluster.runs import Run, Tally
from tests.golden import support_page

DAY = date(2026, 11, 27)


def releases(**environment: str) -> set[str]:
    return {module.release for module in peers.modules(environment)}


def test_the_oldest_release_runs_where_none_is_named() -> None:
    assert {"k8s.io/kubernetes@v1.34.4", "github.com/koordinator-sh/koordinator@v1.7.0"} <= releases()
    assert releases(KUBERNETES="", KOORDINATOR="") == releases()


def test_a_release_is_named_by_the_environment() -> None:
    chosen = releases(KUBERNETES="1.36")
    assert "k8s.io/kubernetes@v1.36.3" in chosen
    assert "k8s.io/kubernetes@v1.34.4" not in chosen


@pytest.mark.parametrize("variable", ["KUBERNETES", "KOORDINATOR"])
def test_an_unknown_release_is_refused_with_those_that_there_are(variable: str) -> None:
    listed = ", ".join({"KUBERNETES": peers.KUBERNETES, "KOORDINATOR": peers.KOORDINATOR}[variable])
    with pytest.raises(BuildError, match=f"{variable}=0.9: no such release; choose one of {listed}"):
        peers.modules({variable: "0.9"})


def folders(**environment: str) -> set[str]:
    return {module.folder for module in peers.modules(environment)}


def test_clients_are_built_where_they_are_chosen() -> None:
    assert folders(CLIENTS="1") - folders() == peers.CLIENTS.keys()
    assert folders(CLIENTS="0") == folders(CLIENTS="") == folders()
    assert folders(CLIENTS="prometheus") - folders() == {"prometheus"}


def test_modules_of_clients_are_collected_where_they_are_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    module, other = (Path(f"tests/cluster/test_clients_{name}.py") for name in ("prometheus", "karpenter"))
    monkeypatch.delenv("CLIENTS", raising=False)
    assert conftest.pytest_ignore_collect(module) is True
    assert conftest.pytest_ignore_collect(Path("tests/cluster/test_claims.py")) is None
    monkeypatch.setenv("CLIENTS", "prometheus")
    assert conftest.pytest_ignore_collect(module) is None
    assert conftest.pytest_ignore_collect(other) is True


def test_an_unknown_client_is_refused_with_those_that_there_are() -> None:
    listed = "cert_manager, karpenter, prometheus, descheduler, prometheus_operator, kueue"
    with pytest.raises(BuildError, match=f"CLIENTS=argo: no such peer; choose 1 for all, or of {listed}"):
        peers.modules({"CLIENTS": "karpenter,argo"})


def test_each_client_has_a_module_of_tests_and_each_such_module_a_client() -> None:
    modules = {path.stem.removeprefix("test_clients_") for path in peers.HERE.glob("test_clients_*.py")}
    assert modules == peers.CLIENTS.keys()


def test_every_release_has_the_same_programs() -> None:
    every = [
        {program.name for module in peers.modules({"KUBERNETES": release}) for program in module.programs}
        for release in peers.KUBERNETES
    ]
    assert all(names == every[0] for names in every)


def test_every_module_has_its_folder_and_names_its_release_there() -> None:
    for release in peers.KUBERNETES:
        for module in peers.modules({"KUBERNETES": release, "CLIENTS": "1"}):
            name, _, version = module.release.partition("@")
            text = (peers.HERE / module.folder / "go.mod").read_text()
            assert f"\t{name} {version}" in text or f"require {name} {version}" in text, module.folder


def test_oldest_and_newest_take_turns_by_the_second_of_the_last_commit() -> None:
    assert [turn.turn(second) for second in (0, 1, 2, 3)] == ["1.34", "1.36", "1.34", "1.36"]


def a_run(module: str, passed: int = 1, *, kubernetes: str = "1.34.4", **beside: str) -> Run:
    return Run(module=module, day="2026-11-27", passed=passed, peers={"Kubernetes": kubernetes, **beside})


def test_a_run_replaces_that_of_the_same_module_with_the_same_peers() -> None:
    first, other = a_run("test_a"), a_run("test_a", kubernetes="1.36.3")
    assert runs.merged([first, other], [a_run("test_a", 2)]) == [a_run("test_a", 2), other]


def told(module: str, when: str = "call", *, passed: bool = True) -> Any:
    return SimpleNamespace(location=(f"tests/cluster/{module}.py",), when=when, passed=passed, failed=not passed)


def tallied(*collected: tuple[str, tuple[str, ...]]) -> Tally:
    tally = Tally(peers.modules({}), DAY)
    items: Any = [SimpleNamespace(path=Path(f"{module}.py"), fixturenames=names) for module, names in collected]
    tally.pytest_collection_modifyitems(items)
    return tally


def test_a_module_counts_when_all_of_its_tests_passed() -> None:
    tally = tallied(*[("test_a", ("control_plane", "volcano")), ("test_b", ("control_plane",))] * 2)
    for report in (told("test_a"), told("test_a"), told("test_b"), told("test_b", passed=False)):
        tally.pytest_runtest_logreport(report)
    assert tally.whole() == [a_run("test_a", 2, Volcano="1.14.1")]


def test_a_part_of_a_module_does_not_count() -> None:
    tally = tallied(*[("test_a", ("control_plane",))] * 2)
    tally.pytest_runtest_logreport(told("test_a"))
    assert tally.whole() == []


@pytest.mark.parametrize("when", ["setup", "teardown"])
def test_a_module_whose_fixture_failed_does_not_count(when: str) -> None:
    tally = tallied(("test_a", ("control_plane",)))
    for report in (told("test_a"), told("test_a", when, passed=False)):
        tally.pytest_runtest_logreport(report)
    assert tally.whole() == []


def test_a_module_without_a_cluster_is_not_written_down() -> None:
    tally = tallied(("test_a", ()))
    tally.pytest_runtest_logreport(told("test_a"))
    assert tally.whole() == []


def test_the_matrix_has_a_column_for_each_kubernetes_in_the_order_of_releases(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = [
        a_run("test_agent_x", 3, kubernetes="1.100.0"),
        a_run("test_agent_x", 2, kubernetes="1.36.3"),
        a_run("test_newcomer", 4, kubernetes="1.36.3", Volcano="1.14.1"),
    ]
    monkeypatch.setattr(runs, "runs", lambda: found)
    text = support_page.page()
    assert "| tests | with | Kubernetes 1.36.3 | Kubernetes 1.100.0 |" in text
    assert "| `test_agent_x` | - | 2, 2026-11-27 | 3, 2026-11-27 |" in text
    assert "## `allocator`" in text
    assert "| `test_newcomer` | Volcano 1.14.1 | 4, 2026-11-27 | - |" in text
