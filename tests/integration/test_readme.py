"""Commands that the pages show are run by a test: here, or where a table says."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from hami_plugins.cli import main
from hami_plugins.inputs import fleets
from hami_plugins.kube.client import connect_to
from hami_plugins.sandbox.apiserver import KOORDINATOR, VOLCANO, ApiServer

TREE = Path(__file__).parents[2]
WORKLOADS = TREE / "hami_plugins" / "examples" / "workloads"

RUN_BY = {
    "docs/reference/fleet-files.md": ("tests/unit/cli/test_fleets.py",),
    "docs/reference/redaction.md": ("tests/unit/cli/test_snapshot.py",),
    "docs/reference/settings.md": ("tests/unit/cli/test_settings.py",),
    "charts/README.md": ("tests/unit/cli/test_allocations.py",),
    "README.md": ("tests/cluster/test_newcomer.py", "tests/integration/test_readme.py"),
    "docs/start/laptop.md": ("tests/cluster/test_newcomer.py", "tests/integration/test_readme.py"),
    "docs/start/volcano-nvidia.md": ("tests/cluster/test_newcomer.py", "tests/integration/test_readme.py"),
    "docs/start/kube-scheduler.md": ("tests/cluster/test_newcomer.py", "tests/integration/test_readme.py"),
    "docs/start/koordinator.md": ("tests/integration/test_readme.py",),
    "docs/start/trainium.md": ("tests/cluster/test_newcomer.py", "tests/integration/test_readme.py"),
    "docs/tasks/add-a-vendor.md": (
        "tests/integration/allocator/test_new_vendor_guide.py",
        "tests/cluster/test_charts_rendered.py",
    ),
    "docs/tasks/take-over-hami.md": ("tests/integration/allocator/test_takeover_page.py",),
    "charts/hami-plugins/charts/volcano-vgpu/README.md": ("tests/cluster/test_charts_node.py",),
    "charts/hami-plugins/charts/allocator/README.md": ("tests/cluster/test_charts_node.py",),
    "charts/hami-plugins/charts/koordinator-adapter/README.md": ("tests/cluster/test_charts_node.py",),
}
"""Pages with blocks of commands, and who runs them."""

NOT_RUN = {
    "make demo": "the newcomer's walk runs it",
    "make test": "it is what runs this",
    "pip install": "the program under test is installed already",
    "kubectl": "there is no kubectl here: the newcomer's walk and the charts' pages run it on a real cluster",
    "helm": "there is no Helm here: the newcomer's walk and the charts' pages run it on a real cluster",
    ".venv/bin/python -m charts.docker.image": "the newcomer's walk builds images",
    "hami-plugins allocator conf --config": "it reads what kubectl has fetched: the newcomer's walk runs it",
    "hami-plugins explain pod default/shared": "it is about a pod that runs: the newcomer's walk runs it",
    "hami-plugins sandbox": "it runs until it is told to stop: tests/integration/test_sandbox.py",
    "hami-plugins explain pod default/example": "it is about a pod of the sandbox",
    "hami-plugins neuron submit": "TorchX has an environment of its own: tests/torchx and the newcomer's walk",
    "torchx": "TorchX has an environment of its own: the newcomer's walk runs it",
    "hami-plugins neuron queue": "there is no kubectl here: the newcomer's walk runs it",
    "hami-plugins neuron hypernodes": "there are no Neuron nodes here: the newcomer's walk runs it",
}
"""How lines begin that this file leaves out, and why."""

FOLLOWED = ("README.md", *(f"docs/start/{page.name}" for page in sorted((TREE / "docs" / "start").glob("*.md"))))
"""Pages whose commands are run here, except those left out."""


def blocks(page: Path) -> list[str]:
    return re.findall(r"^```sh\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)


def commands() -> list[str]:
    """The commands of the pages that need no cluster of their own, each once."""
    lines = [
        line.partition("  #")[0].partition(" # ")[0].strip()
        for page in FOLLOWED
        for each in blocks(TREE / page)
        for line in each.replace("\\\n", " ").splitlines()
    ]
    return list(dict.fromkeys(line for line in lines if line and not line.startswith(tuple(NOT_RUN))))


def pages() -> list[str]:
    listed = subprocess.run(["git", "ls-files", "*.md"], cwd=TREE, capture_output=True, text=True, check=True)  # noqa: S607
    return [name for name in listed.stdout.split() if (TREE / name).exists()]


def test_every_block_of_commands_is_run_by_a_test() -> None:
    with_blocks = {name for name in pages() if blocks(TREE / name)}
    assert with_blocks == set(RUN_BY)
    for page, tests in RUN_BY.items():
        for test in tests:
            assert Path(page).parent.name in (TREE / test).read_text() or page in (TREE / test).read_text(), page


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Where the commands are typed: manifests, a listing of the cluster, and a kubeconfig of it."""
    for name in ("manifests", "app"):
        shutil.copytree(WORKLOADS, tmp_path / name)
    shutil.copy(WORKLOADS / "02-llama-finetune.yaml", tmp_path / "job.yaml")
    asks = {"resources": {"limits": {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "4000"}}}
    spec = {"containers": [{"name": "main", "image": "a", **asks}]}
    job = {"template": {"spec": {**spec, "restartPolicy": "Never"}}}
    declared = fleets.parse("nodes: [{shape: h100x8, count: 2}]", source="test")
    nodes: list[Any] = list(fleets.nodes_of(declared))
    with ApiServer(kinds=(*VOLCANO, *KOORDINATOR)) as server:
        api = connect_to(server.url, component="test")
        api.create("/api/v1/namespaces", {"metadata": {"name": "team"}})
        for node in nodes:
            fresh = {key: held for key, held in node["metadata"].items() if key not in {"resourceVersion", "uid"}}
            api.create("/api/v1/nodes", {**node, "metadata": fresh})
            status = {key: held for key, held in node["status"].items() if key in {"capacity", "allocatable"}}
            api.merge_patch(f"/api/v1/nodes/{fresh['name']}/status", {"status": status})
        pods = "/api/v1/namespaces/team/pods"
        of_job = {"labels": {"job-name": "train", "batch.kubernetes.io/job-name": "train"}}
        runs = {**spec, "nodeName": nodes[0]["metadata"]["name"]}
        for metadata, wanted in (({"name": "my-pod"}, spec), ({"name": "train-0", **of_job}, spec)):
            api.create(pods, {"metadata": metadata, "spec": wanted})
        api.create("/api/v1/namespaces/default/pods", {"metadata": {"name": "slice"}, "spec": spec})
        api.create(pods, {"metadata": {"name": "old-job"}, "spec": runs})
        api.merge_patch(f"{pods}/old-job/status", {"status": {"phase": "Running"}})
        api.create("/apis/batch/v1/namespaces/team/jobs", {"metadata": {"name": "train"}, "spec": job})
        listing = [
            {"apiVersion": "v1", "kind": kind, **each}
            for path, kind in (("/api/v1/nodes", "Node"), ("/api/v1/pods", "Pod"))
            for each in api.get(path)["items"]
        ]
        whole = {"apiVersion": "v1", "kind": "List", "items": listing}
        (tmp_path / "cluster.json").write_text(json.dumps(whole))
        (tmp_path / "allocator.yaml").write_text("vendors: [NVIDIA]\n")
        server.kubeconfig(tmp_path / "kubeconfig")
        api.close()
        yield tmp_path


def typed(folder: Path, command: str) -> tuple[int, str, str]:
    """The code, the output and the complaints of what only a shell understands."""
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", command],  # noqa: S607
        cwd=folder,
        env={
            "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
            "HOME": str(folder),
            "KUBECONFIG": str(folder / "kubeconfig"),
        },
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("command", commands(), ids=lambda command: " ".join(command.split()[1:4]))
def test_a_command_of_the_pages_has_an_answer(
    folder: Path, command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Fine, or findings; whatever cannot be done would be 2."""
    if command.startswith("hami-plugins ") and not set(command) & set("|&;<>$`*\\\n"):
        monkeypatch.chdir(folder)
        monkeypatch.setenv("HOME", str(folder))
        # The library reads KUBECONFIG when it is imported.
        monkeypatch.setattr("kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(folder / "kubeconfig"))
        code = main(shlex.split(command)[1:])
        said = capsys.readouterr()
        output, complaint = said.out, said.err
    else:
        code, output, complaint = typed(folder, command)
    assert code in {0, 1}, output + complaint
    assert output or (folder / "plan.html").exists() or (folder / "cluster.snapshot.gz").exists()


def test_the_first_page_shows_what_is_printed(folder: Path) -> None:
    """Every line of the block with a prompt that is not left out (``...``)."""
    text = (TREE / "README.md").read_text()
    (shown,) = re.findall(r"^```console\n\$ (hami-plugins plan --fleet .*?)^```", text, re.DOTALL | re.MULTILINE)
    command, *lines = shown.splitlines()
    done = subprocess.run(
        [str(Path(sys.executable).with_name("hami-plugins")), *command.split()[1:]],
        cwd=TREE,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env={"PATH": "/usr/bin:/bin", "HOME": str(folder), "COLUMNS": "200"},
    )
    printed = [" ".join(line.split()) for line in done.stdout.splitlines()]
    for line in lines:
        wanted = " ".join(line.removesuffix("...").split())
        assert any(each.startswith(wanted) for each in printed), f"{line}\n{done.stdout}{done.stderr}"


def test_the_program_of_the_page_runs(folder: Path) -> None:
    text = (TREE / "docs" / "start" / "laptop.md").read_text()
    (program,) = re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert "llama-finetune-master-0" in done.stdout


def test_every_line_that_is_left_out_is_on_a_page() -> None:
    shown = [line for page in FOLLOWED for each in blocks(TREE / page) for line in each.splitlines()]
    assert [start for start in NOT_RUN if not any(line.startswith(start) for line in shown)] == []


def test_the_yaml_of_the_pages_is_read() -> None:
    for page in pages():
        for found in re.findall(r"^```yaml\n(.*?)^```", (TREE / page).read_text(), re.DOTALL | re.MULTILINE):
            assert list(yaml.safe_load_all(found)), page
