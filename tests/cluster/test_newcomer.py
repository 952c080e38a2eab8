"""A newcomer follows the first page and a quickstart, from a fresh clone to a shared card and back."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from tests.cluster.agents import Numbers
from tests.cluster.charted import Charted
from tests.cluster.containerd import SOCKET, snapshotter
from tests.cluster.hami import hami_gpu, kube_scheduler
from tests.cluster.helm import UMBRELLA, Helm, everything, laid, objects
from tests.cluster.images import BASE
from tests.cluster.node import Node
from tests.cluster.objects import pod
from tests.cluster.pages import Page, Terminal
from tests.cluster.slices import pods
from tests.cluster.training import TrainingNode, check_handed_out, jobs_in
from tests.cluster.volcano import CONFIGURATION, Volcano
from tests.cluster.waiting import wait_until

TREE = Path().absolute()
TRANSCRIPT = TREE / "build" / "newcomer.txt"
PULLED = "docker.io/library/busybox:1.37"


@pytest.fixture(scope="module")
def terminal(programs: Mapping[str, Path], node: Node, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    """A terminal in a fresh clone, where the first page was followed; what was seen there is kept."""
    folder = tmp_path_factory.mktemp("newcomer")
    found = Terminal(
        folder,
        {"helm": programs["helm4"], "kubectl": programs["kubectl"]},
        {f"HELM_{kind}_HOME": str(folder / "helm") for kind in ("CACHE", "CONFIG", "DATA")}
        | {"KUBECONFIG": str(node.plane.admin_kubeconfig)},
    )
    try:
        found.lines(f"git clone --quiet file://{TREE} hami-plugins\n")
        found.folder /= "hami-plugins"
        first = Page(found.folder / "README.md")
        demo = found.lines(next(line for line in first.block("make demo").splitlines() if "make demo" in line))
        assert "fits" in demo
        found.programs = {**found.programs, "hami-plugins": found.folder / ".venv/bin/hami-plugins"}
        found.lines(page_of(found, "volcano-nvidia").block("charts.docker.image"))
        brought_in(node, found.folder)
        yield found
    finally:
        TRANSCRIPT.parent.mkdir(exist_ok=True)
        TRANSCRIPT.write_text("\n".join(found.transcript))


@pytest.fixture
def helm(programs: Mapping[str, Path], node: Node, tmp_path: Path) -> Helm:
    return Helm(programs["helm4"], tmp_path / "helm", node.plane.admin_kubeconfig)


def page_of(terminal: Terminal, name: str) -> Page:
    return Page(terminal.folder / "docs" / "start" / f"{name}.md")


def brought_in(node: Node, clone: Path) -> None:
    """What a registry would do: the node has the images, and the one of the page's pod."""
    ctr = [str(node.plane.programs["ctr"]), "--address", SOCKET, "--namespace", "k8s.io", "images"]
    archives = sorted((clone / "build" / "images").glob("*.tar"))
    assert len(archives) == 2
    commands = [["import", "--local", "--snapshotter", snapshotter(node.machine), str(archive)] for archive in archives]
    for words in (*commands, ["tag", "--force", BASE, PULLED]):
        done = node.machine.run([*ctr, *words], timeout=120)
        assert done.returncode == 0, done.stderr


def written(terminal: Terminal, page: Page, name: str) -> None:
    """The pod that the page has for a file, in the network of the node, which has no other."""
    body = yaml.safe_load(page.text(name))
    body["spec"]["hostNetwork"] = True
    (terminal.folder / name).write_text(yaml.safe_dump(body))


@contextmanager
def taken_away(node: Node, helm: Helm, terminal: Terminal, namespace: str) -> Iterator[None]:
    """At the end the release of that name is gone, whatever happened, and nothing else is left of it."""
    before = everything(node.plane.api)
    try:
        yield
    except AssertionError:
        terminal.run(f"kubectl get pods,events -A; kubectl describe pods -n {namespace}")
        raise
    finally:
        if any(namespace in each for each in helm.run("list", "--all-namespaces").splitlines()):
            helm.run("uninstall", namespace, "--namespace", namespace, "--wait")
        node.plane.clear_namespace("default")
    wait_until(lambda: not everything(node.plane.api) - before, "nothing is left", 90)


@pytest.mark.usefixtures("kube_scheduler")
def test_a_newcomer_gets_from_a_fresh_clone_to_a_shared_card_and_back(
    node: Node, volcano: Volcano, terminal: Terminal, helm: Helm
) -> None:
    """Its blocks; but the values, and the pod's network, are those of a node without registry, cards and CNI."""
    page = page_of(terminal, "volcano-nvidia")
    release = Charted(node, helm, "vgpu")
    assert objects(helm.template(UMBRELLA, page.values()))
    (terminal.folder / "values.yaml").write_text(yaml.safe_dump(dict(release.values())))
    written(terminal, page, "pod.yaml")
    volcano.configure(release.scheduler_conf())
    volcano.restart_scheduler()
    try:
        with taken_away(node, helm, terminal, "vgpu"):
            assert "Phase:          Succeeded" in terminal.lines(page.block("helm install"))
            release.wait_ready()
            told = terminal.lines(page.block("allocator conf"))
            assert f"http://vgpu-allocator.vgpu.svc:{release.plain_port}/extender" in told
            seen = terminal.lines(page.block("pod.yaml"))
            laptop = page_of(terminal, "laptop").block("--snapshot cluster.json")
            terminal.lines(next(line for line in laptop.splitlines() if "kubectl" in line))
            assert f"default/shared: running on {node.name}" in seen
            assert "4 GiB, 30 %" in seen
            terminal.lines(page.block("helm uninstall"))
    finally:
        volcano.configure(CONFIGURATION)
        volcano.restart_scheduler()


@pytest.fixture
def trainer(terminal: Terminal, tmp_path: Path) -> Terminal:
    """The same person's terminal in the environment of TorchX, which ``make test-torchx`` makes as well."""
    subprocess.run(["make", ".venv-torchx/.ready"], cwd=TREE, check=True, capture_output=True, timeout=600)  # noqa: S607
    programs = {name: TREE / ".venv-torchx/bin" / name for name in ("hami-plugins", "torchx")}
    return Terminal(tmp_path, {**terminal.programs, **programs}, terminal.environment, terminal.transcript)


@pytest.fixture
def release(node: Node, helm: Helm) -> Charted:
    """The release ``neuron``, not installed yet."""
    return Charted(node, helm, "neuron")


def neuron_conf(terminal: Terminal, release: Charted) -> str:
    """What the page's command prints, with the server's address on this node."""
    printed = yaml.safe_load(terminal.lines("hami-plugins allocator conf --config allocator.yaml --output yaml"))
    for plugin in (each for tier in printed["tiers"] for each in tier["plugins"]):
        if plugin["name"] == "extender":
            plugin["arguments"]["extender.urlPrefix"] = f"http://127.0.0.1:{release.plain_port}/extender"
    return yaml.safe_dump(printed, sort_keys=False)


def submitted_and_cancelled(trainer: Terminal, training: TrainingNode, again: str, cancel: str) -> float:
    """The seconds from the command to both pods running; then the job is cancelled."""
    began = time.monotonic()
    (job,) = jobs_in(trainer.lines(again))
    training.wait_running(job, 2)
    took = time.monotonic() - began
    trainer.lines(cancel)
    wait_until(lambda: not training.pods(job), "the pods of the cancelled job are gone", 60)
    return took


@pytest.mark.usefixtures("kube_scheduler")
def test_a_newcomer_compiles_and_trains_on_trainium_from_an_empty_cluster(
    release: Charted, volcano: Volcano, terminal: Terminal, trainer: Terminal, numbers: Numbers
) -> None:
    """Its blocks; but the values are those of a node without registry and CNI, and its image is a stand-in."""
    page, node = page_of(terminal, "trainium"), release.node
    values = laid(page.values(), {"allocator": release.allocator()})
    (terminal.folder / "values.yaml").write_text(yaml.safe_dump(values))
    submit, status, log, nodes = page.commands("--precompile")
    again, cancel, *removal = page.commands("torchx cancel")
    with TrainingNode(node) as training, taken_away(node, release.helm, terminal, "neuron"):
        assert "Phase:          Succeeded" in terminal.lines(page.block("helm install neuron"))
        volcano.configure(neuron_conf(terminal, release))
        volcano.restart_scheduler()
        try:
            trainer.lines(page.block("neuron queue test"))
            submitted = trainer.lines(submit)
            assert "run the allocator" not in submitted
            compiling, train = jobs_in(submitted)
            assert "Compiler status PASS" in training.log(compiling, 0)
            training.wait_running(train, 2)
            assert "RUNNING" in trainer.lines(status)
            said = dict(re.findall(r"(train/\d) (.*?)(?=train/\d b'|$)", trainer.lines(log), re.DOTALL))
            for rank, first in enumerate(("localhost", f"{train}-train-0-0.{train}")):
                assert f"torchrun --rdzv_backend c10d --rdzv_endpoint {first}:29500" in said[f"train/{rank}"]
                assert "NEURON_COMPILE_CACHE_URL=/data/neuron-cache" in said[f"train/{rank}"]
                assert "FI_PROVIDER=efa" in said[f"train/{rank}"]
            handed_out = training.handed_out(train)
            terminal.transcript.append("\n".join(map(str, handed_out)))
            check_handed_out(handed_out)
            assert f"default/{train}-train-0-0" in trainer.lines(nodes)
            training.end(train)
            volcano.wait_for_job("default", train, "Completed")
            assert "SUCCEEDED" in trainer.lines(status)
            took = [submitted_and_cancelled(trainer, training, again, cancel) for _ in range(3)]
            measured = ", ".join(f"{each:.1f}" for each in took)
            numbers.add("neuron submit to both pods running, three times", f"{measured} s", "<= 15 s")
            terminal.lines("\n".join(removal))
        finally:
            volcano.configure(CONFIGURATION)
            volcano.restart_scheduler()
            training.forget("test")


@pytest.mark.usefixtures("kube_scheduler")
def test_a_newcomer_of_kube_scheduler_runs_a_slice_in_hamis_words_and_takes_it_all_away(
    node: Node, terminal: Terminal, helm: Helm
) -> None:
    """The scheduler is a process with the configuration that the page's command prints: its image is in a registry."""
    page = page_of(terminal, "kube-scheduler")
    release = Charted(node, helm, "cards")
    assert objects(helm.template(UMBRELLA, yaml.safe_load(page.text("cards.yaml"))))
    values = laid(
        {"volcano-vgpu": {"agent": {"settings": {"dialect": "hami"}}}, "allocator": {"vendors": ["NVIDIA"]}},
        release.values(),
    )
    (terminal.folder / "cards.yaml").write_text(yaml.safe_dump(dict(values)))
    written(terminal, page, "slice.yaml")
    with taken_away(node, helm, terminal, "cards"):
        assert "Phase:          Succeeded" in terminal.lines(page.block("helm install cards"))
        conf = yaml.safe_load(terminal.lines(page.block("configmap cards-allocator")))
        scheduler = kube_scheduler(node.plane, conf, f"http://127.0.0.1:{release.plain_port}/scheduler")
        scheduler.start()
        try:
            *steps, removal = page.block("apply -f slice.yaml").splitlines(keepends=True)
            seen = terminal.lines("".join(steps))
            node.plane.api.create(pods("default"), pod("waits", hami_gpu(gpus=2, memory=38_000)))
            wait_until(
                lambda: "36,864" in "".join(node.plane.events("default", "waits")), "it is told what is free", 60
            )
            shown = terminal.lines("hami-plugins nodes --output wide")
            terminal.lines(removal)
            node.plane.wait_for_pod("default", "waits", "Running")
            node.plane.api.delete(f"{pods('default')}/waits", grace=0)
        finally:
            scheduler.stop()
        assert "CUDA_DEVICE_MEMORY_LIMIT_0=4096m" in seen
        assert f"default/slice: running on {node.name}" in seen
        assert "default/slice" in shown
        assert "default/waits since" in shown
        terminal.lines(page.block("helm uninstall cards"))
