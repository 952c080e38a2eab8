"""``submit --precompile`` and ``resume``: training starts when the graphs are compiled, whichever command waits."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
import yaml
from typer import BadParameter

from hami_plugins.errors import ConfigError, KubeError
from hami_plugins.kube.client import connect_to
from hami_plugins.sandbox.apiserver import ApiServer, Fault, Refuse
from neuron_topology.commands import resume
from neuron_topology.torchx import driver
from tests.integration.neuron_topology.submit.objects import TWO_MACHINES, jobs
from tests.integration.neuron_topology.submit.typing_in import Typing
from tests.unit.neuron_topology.torchx import stand_in
from tests.waiting import wait_for

JOBS = "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs"
FIRST, THEN = "kubernetes://torchx/default:compile-1", "kubernetes://torchx/default:train-1"
ARGUMENTS = ("--image", "i", "--script", "train.py", "--cache", "fsx-claim", "--", "--lr", "1")


def a_job(arguments: list[str]) -> dict[str, Any]:
    """What TorchX makes: by its name what it is for, with graphs in the claim."""
    job = copy.deepcopy(TWO_MACHINES)
    job["metadata"]["name"] = "compile-1" if "--precompile" in arguments else "train-1"
    for task in job["spec"]["tasks"]:
        (container,) = task["template"]["spec"]["containers"]
        container["env"].append({"name": "NEURON_COMPILE_CACHE_URL", "value": "/data/graphs"})
    return job


@pytest.fixture
def runner(monkeypatch: pytest.MonkeyPatch) -> stand_in.Runner:
    """TorchX, which asks for two whole machines each time."""
    return stand_in.with_runner(monkeypatch, a_job, "image_repo")


@pytest.fixture
def waiting(neuron: Typing, server: ApiServer) -> Iterator[Callable[[], Future[Any]]]:
    """A client that waits, in a thread; it has created the first job and follows it."""
    with ThreadPoolExecutor(1) as pool:

        def begun() -> Future[Any]:
            client = connect_to(server.url)
            future = pool.submit(resume.run, client, resume.named("compile-1", namespace="default"))
            wait_for(lambda: server.open_watches("jobs.batch.volcano.sh"), "the first job is followed")
            return future

        yield begun


def names(server: ApiServer) -> list[str]:
    return sorted(each["metadata"]["name"] for each in jobs(server))


def reach(server: ApiServer, phase: str) -> None:
    """What Volcano's controller writes of the first job."""
    status = {"status": {"state": {"phase": phase}}}
    connect_to(server.url).merge_patch(f"{JOBS}/compile-1/status", status)


def test_the_training_job_is_created_when_the_precompile_job_has_completed(
    server: ApiServer, neuron: Typing, waiting: Callable[[], Future[Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    said = neuron("--queue", "test", "--precompile", "--no-wait", "--", *ARGUMENTS)
    assert (said.code, said.out) == (0, f"{FIRST}\n")
    assert "hami-plugins neuron resume default/compile-1" in said.err
    assert names(server) == ["compile-1"]
    ended = waiting()
    for phase in ("Running", "Completing"):
        reach(server, phase)
        assert names(server) == ["compile-1"]
    reach(server, "Completed")
    assert ended.result(30) == 0
    assert names(server) == ["compile-1", "train-1"]
    assert capsys.readouterr().out == f"{THEN}\n"
    (train,) = (each for each in jobs(server) if each["metadata"]["name"] == "train-1")
    assert train["spec"]["minAvailable"] == 2  # patched as any other
    assert "annotations" not in train["metadata"]


def test_the_first_job_alone_is_told_to_precompile_and_has_more_arguments(
    neuron: Typing, runner: stand_in.Runner
) -> None:
    more = ("--precompile-args", "--steps_this_run 10")
    assert neuron("--queue", "test", "--precompile", *more, "--no-wait", "--", *ARGUMENTS).code == 0
    first, then = (asked[1] for asked in runner.asked)
    assert first == ["--precompile", "True", *ARGUMENTS, "--steps_this_run", "10"]
    assert then == list(ARGUMENTS)
    neuron("--queue", "test", "--precompile", *more, "--dry-run", "--", "--script", "s")
    assert runner.asked[2][1] == ["--precompile", "True", "--script", "s", "--", "--steps_this_run", "10"]


def test_submit_waits_itself_unless_it_is_told_not_to(server: ApiServer, neuron: Typing) -> None:
    def complete() -> None:
        wait_for(lambda: server.open_watches("jobs.batch.volcano.sh"), "the first job is followed")
        reach(server, "Completed")

    thread = threading.Thread(target=complete)
    thread.start()
    said = neuron("--queue", "test", "--precompile", "--", *ARGUMENTS)
    thread.join()
    assert (said.code, said.out) == (0, f"{FIRST}\n{THEN}\n")


def test_a_client_that_was_killed_is_followed_by_any_other(server: ApiServer, neuron: Typing) -> None:
    neuron("--queue", "test", "--precompile", "--no-wait", "--", *ARGUMENTS)
    reach(server, "Completed")
    for name in (FIRST, "default/compile-1", "compile-1"):
        said = neuron(name, command="resume")
        assert (said.code, said.out) == (0, f"{THEN}\n")
        assert names(server) == ["compile-1", "train-1"]
    assert "default/train-1 is there already" in neuron("compile-1", command="resume").err


@pytest.mark.parametrize("phase", ["Failed", "Aborted", "Terminated"])
def test_graphs_that_were_not_compiled_start_no_training(server: ApiServer, neuron: Typing, phase: str) -> None:
    neuron("--queue", "test", "--precompile", "--no-wait", "--", *ARGUMENTS)
    reach(server, phase)
    said = neuron("compile-1", command="resume")
    assert (said.code, said.out) == (1, "")
    assert f"default/compile-1 is {phase}, so that default/train-1 is not created; see torchx log {FIRST}" in said.err
    assert names(server) == ["compile-1"]


def test_a_precompile_job_that_is_deleted_starts_no_training(
    server: ApiServer, neuron: Typing, waiting: Callable[[], Future[Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    neuron("--queue", "test", "--precompile", "--no-wait", "--", *ARGUMENTS)
    ended = waiting()
    server.delete("jobs.batch.volcano.sh", "compile-1", "default")
    assert ended.result(30) == 1
    assert "default/compile-1 was deleted" in capsys.readouterr().err
    assert names(server) == []


def test_a_server_that_was_away_is_waited_for(
    server: ApiServer, neuron: Typing, waiting: Callable[[], Future[Any]]
) -> None:
    neuron("--queue", "test", "--precompile", "--no-wait", "--", *ARGUMENTS)
    ended = waiting()
    server.pause()
    server.resume()
    reach(server, "Completed")
    assert ended.result(30) == 0
    assert names(server) == ["compile-1", "train-1"]


def test_a_job_that_may_not_be_watched_is_an_error_and_not_a_wait(
    server: ApiServer, neuron: Typing, monkeypatch: pytest.MonkeyPatch
) -> None:
    neuron("--queue", "test", "--precompile", "--no-wait", "--", *ARGUMENTS)
    monkeypatch.setattr(resume, "_LOOK", 0.05)
    server.faults.add(Fault(action=Refuse(403), verb="list", resource="jobs.batch.volcano.sh", times=None))
    with pytest.raises(KubeError, match="403"):
        neuron("compile-1", command="resume")


def test_an_interrupt_leaves_the_first_job_and_says_how_to_go_on(
    server: ApiServer, neuron: Typing, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(resume, "_ended", interrupted)
    said = neuron("--queue", "test", "--precompile", "--", *ARGUMENTS)
    assert (said.code, said.out) == (130, f"{FIRST}\n")
    wanted = "default/compile-1 goes on; default/train-1 is created by: hami-plugins neuron resume default/compile-1"
    assert wanted in said.err
    assert names(server) == ["compile-1"]


def test_a_dry_run_prints_both_jobs(server: ApiServer, neuron: Typing) -> None:
    said = neuron("--queue", "test", "--precompile", "--dry-run", "--", *ARGUMENTS)
    first, then = yaml.safe_load_all(said.out)
    assert (first["metadata"]["annotations"]["hami-plugins.io/next-job"], then["metadata"]["name"]) == ("train-1",) * 2
    assert jobs(server) == []
    listed = yaml.safe_load(neuron("--queue", "test", "--precompile", "--dry-run", "-o", "json", "--", *ARGUMENTS).out)
    assert [each["metadata"]["name"] for each in listed["items"]] == ["compile-1", "train-1"]


def test_the_image_of_a_workspace_is_pushed_once_for_both_jobs(
    neuron: Typing, runner: stand_in.Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner.images = {"sha256:1": ("repo", "1")}
    pushed: list[Any] = []
    monkeypatch.setattr(driver, "push", pushed.append)
    neuron("--queue", "test", "--precompile", "--no-wait", "--workspace", "file://code", "--", *ARGUMENTS)
    assert pushed == [runner.images]


def test_graphs_that_would_be_lost_are_refused_before_anything_is_created(
    server: ApiServer, neuron: Typing, runner: stand_in.Runner
) -> None:
    runner.answer = TWO_MACHINES
    with pytest.raises(ConfigError, match="--precompile: no container names a compile cache"):
        neuron("--queue", "test", "--precompile", "--", *ARGUMENTS)
    assert jobs(server) == []


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (("--no-wait",), "is for --precompile"),
        (("--precompile-args", "-x"), "is for --precompile"),
        (("--precompile", "--", "--precompile", "True"), "is for submit or for the component"),
    ],
)
def test_options_that_contradict_each_other_are_refused(neuron: Typing, given: tuple[str, ...], why: str) -> None:
    with pytest.raises(BadParameter, match=why):
        neuron("--queue", "test", *given)


def test_a_job_that_keeps_no_other_is_not_waited_for(server: ApiServer, neuron: Typing) -> None:
    assert neuron("--queue", "test", "--", *ARGUMENTS).code == 0
    with pytest.raises(ConfigError, match="job default/train-1 keeps no next job"):
        neuron("train-1", command="resume")
    with pytest.raises(ConfigError, match="has no name; write NAMESPACE/NAME"):
        neuron("kubernetes://torchx/default", command="resume")
