"""A newcomer follows the first page and the quickstart for Volcano, from a fresh clone to a shared card and back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import yaml

from tests.cluster.charted import Charted
from tests.cluster.containerd import SOCKET, snapshotter
from tests.cluster.helm import UMBRELLA, Helm, everything, objects
from tests.cluster.images import BASE
from tests.cluster.node import Node
from tests.cluster.pages import Page, Terminal
from tests.cluster.volcano import CONFIGURATION, Volcano
from tests.cluster.waiting import wait_until

TREE = Path().absolute()
TRANSCRIPT = TREE / "build" / "newcomer.txt"
NAMESPACE = "vgpu"
PULLED = "docker.io/library/busybox:1.37"


@pytest.fixture
def terminal(programs: Mapping[str, Path], node: Node, tmp_path: Path) -> Iterator[Terminal]:
    """A terminal in an empty folder; what was seen there is kept."""
    found = Terminal(
        tmp_path,
        {"helm": programs["helm4"], "kubectl": programs["kubectl"]},
        {f"HELM_{kind}_HOME": str(tmp_path / "helm") for kind in ("CACHE", "CONFIG", "DATA")}
        | {"KUBECONFIG": str(node.plane.admin_kubeconfig)},
    )
    try:
        yield found
    finally:
        TRANSCRIPT.parent.mkdir(exist_ok=True)
        TRANSCRIPT.write_text("\n".join(found.transcript))


def brought_in(node: Node, clone: Path) -> None:
    """What a registry would do: the node has the images, and the one of the page's pod."""
    ctr = [str(node.plane.programs["ctr"]), "--address", SOCKET, "--namespace", "k8s.io", "images"]
    archives = sorted((clone / "build" / "images").glob("*.tar"))
    assert len(archives) == 2
    commands = [["import", "--local", "--snapshotter", snapshotter(node.machine), str(archive)] for archive in archives]
    for words in (*commands, ["tag", "--force", BASE, PULLED]):
        done = node.machine.run([*ctr, *words], timeout=120)
        assert done.returncode == 0, done.stderr


@pytest.mark.usefixtures("kube_scheduler")
def test_a_newcomer_gets_from_a_fresh_clone_to_a_shared_card_and_back(
    node: Node, volcano: Volcano, terminal: Terminal, programs: Mapping[str, Path], tmp_path: Path
) -> None:
    """Its blocks; but the values, and the pod's network, are those of a node without registry, cards and CNI."""
    terminal.lines(f"git clone --quiet file://{TREE} hami-plugins\n")
    terminal.folder /= "hami-plugins"
    first = Page(terminal.folder / "README.md")
    laptop = Page(terminal.folder / "docs" / "start" / "laptop.md")
    page = Page(terminal.folder / "docs" / "start" / "volcano-nvidia.md")
    demo = terminal.lines(next(line for line in first.block("make demo").splitlines() if "make demo" in line))
    assert "fits" in demo
    terminal.programs = {**terminal.programs, "hami-plugins": terminal.folder / ".venv/bin/hami-plugins"}
    terminal.lines(page.block("charts.docker.image"))
    brought_in(node, terminal.folder)
    before = everything(node.plane.api)
    helm = Helm(programs["helm4"], tmp_path / "helm", node.plane.admin_kubeconfig)
    release = Charted(node, helm, NAMESPACE)
    assert objects(helm.template(UMBRELLA, page.values()))
    (terminal.folder / "values.yaml").write_text(yaml.safe_dump(dict(release.values())))
    pod = yaml.safe_load(page.text("pod.yaml"))
    pod["spec"]["hostNetwork"] = True  # the node has no other
    (terminal.folder / "pod.yaml").write_text(yaml.safe_dump(pod))
    volcano.configure(release.scheduler_conf())
    volcano.restart_scheduler()
    try:
        assert "Phase:          Succeeded" in terminal.lines(page.block("helm install"))
        release.wait_ready()
        told = terminal.lines(page.block("allocator conf"))
        assert f"http://vgpu-allocator.vgpu.svc:{release.plain_port}/extender" in told
        seen = terminal.lines(page.block("pod.yaml"))
        terminal.lines(next(line for line in laptop.block("--snapshot cluster.json").splitlines() if "kubectl" in line))
        assert f"default/shared: running on {node.name}" in seen
        assert "4 GiB, 30 %" in seen
        terminal.lines(page.block("helm uninstall"))
    except AssertionError:
        terminal.run(f"kubectl get pods,events -A; kubectl describe pods -n {NAMESPACE}")
        raise
    finally:
        volcano.configure(CONFIGURATION)
        volcano.restart_scheduler()
        if any(NAMESPACE in each for each in helm.run("list", "--all-namespaces").splitlines()):
            helm.run("uninstall", "vgpu", "--namespace", NAMESPACE, "--wait")
        node.plane.clear_namespace("default")
    wait_until(lambda: not everything(node.plane.api) - before, "nothing is left", 90)
