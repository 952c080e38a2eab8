"""Our resources, our component and ``neuron submit`` with TorchX itself. Nothing here asks a cluster."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torchx
import yaml
from torchx import specs
from torchx.runner import get_runner
from torchx.schedulers import get_scheduler_factories
from torchx.specs.finder import get_components

from hami_plugins.errors import ConfigError
from hami_plugins.sandbox.apiserver import VOLCANO, ApiServer
from hami_plugins.wire.fields import Json
from neuron_topology.core.jobs import patch
from neuron_topology.core.named_resources import NAMED
from neuron_topology.torchx import driver
from tests.integration.neuron_topology.submit.objects import a_claim
from tests.torchx.docker_daemon import IMAGE_ID, docker_daemon
from tests.unit.neuron_topology.hypernodes.nodes import an_idle_node
from tests.unit.neuron_topology.typing_in import type_in

ROOT = Path(__file__).parents[2]
NEURON, EFA = "aws.amazon.com/neuron", "vpc.amazonaws.com/efa"
IMAGE = ("--image", "registry.example.com/train:1")
RELEASE = "0.7.0"
KEPT = ROOT / f"tests/golden/torchx/named-resources/{RELEASE}.yaml"
"""What ``tests/cluster`` submits to the real Volcano: there is no TorchX there."""
OPTIONS = {"queue": "test", "namespace": "default"}


def asked(*arguments: str, component: str = driver.COMPONENT) -> Json:
    return driver.requested(component, (*IMAGE, *arguments), OPTIONS).job


def containers(job: Json) -> list[dict[str, Any]]:
    return [task["template"]["spec"]["containers"][0] for task in job["spec"]["tasks"]]


@pytest.mark.parametrize("name", NAMED)
def test_torchx_finds_every_named_resource(name: str) -> None:
    found, ours = specs.resource(h=name), NAMED[name]
    assert (found.cpu, found.memMB, found.devices) == (ours.cpu, ours.memory_mb, dict(ours.devices))


@pytest.mark.parametrize(
    "kind", ["trn1.32xlarge", "trn1n.32xlarge", "trn2.48xlarge", "trn2u.48xlarge", "inf1.24xlarge"]
)
def test_torchx_takes_sixteen_devices_for_the_whole_machine(kind: str) -> None:
    assert specs.resource(h=f"neuron_{kind}_16") == specs.resource(h=f"neuron_{kind}")


def test_torchxs_own_components_and_schedulers_stay() -> None:
    assert "dist.ddp" in get_components()
    assert "kubernetes" in get_scheduler_factories()


def test_the_newer_way_to_find_plugins_finds_the_same_names() -> None:
    pytest.importorskip("torchx.plugins")
    listing = (
        "from torchx import plugins; found = plugins.registry();"
        "print(*found.get(plugins.PluginType.NAMED_RESOURCE), sep='\\n'); assert not found.load_errors()"
    )
    for source in ("1", "2", "3"):
        environment = {**os.environ, "TORCHX_PLUGINS_SOURCE": source}
        answer = subprocess.run(
            [sys.executable, "-c", listing], env=environment, capture_output=True, text=True, check=True, cwd=ROOT
        )
        assert set(NAMED) <= set(answer.stdout.split())


@pytest.mark.parametrize("name", NAMED)
def test_a_job_of_any_resource_asks_for_what_the_machine_has_and_needs_no_cut(name: str) -> None:
    job = asked("--script", "train.py", "-h", name, "-j", "1")
    changes = [change.what for change in patch.patch(job).changes]
    (container,) = containers(job)
    assert container["resources"]["limits"][NEURON] == str(NAMED[name].devices[NEURON])
    assert not any("the pod may ask for" in what or "is aws.amazon.com" in what for what in changes)
    assert f"--nproc_per_node {NAMED[name].workers()}" in container["command"][-1]


@pytest.mark.skipif(torchx.__version__ != RELEASE, reason=f"kept is what TorchX {RELEASE} makes")
def test_what_torchx_makes_of_every_named_resource_is_what_a_real_cluster_is_given(
    monkeypatch: pytest.MonkeyPatch, *, update_golden: bool
) -> None:
    monkeypatch.delenv("LOGLEVEL", raising=False)  # TorchX hands it on
    made = [named_job(resource.attribute.replace("_", "-"), "-h", name) for name, resource in NAMED.items()]
    made.append(named_job("gang", "-h", "neuron_trn1.32xlarge_8", "-j", "4", "--tier", "network-layer-3"))
    text = "---\n".join(made)
    if update_golden:
        KEPT.write_text(text, encoding="utf-8")
    assert text == KEPT.read_text(encoding="utf-8"), "make test-torchx ARGS=--update-golden keeps what is made now"


def named_job(name: str, *arguments: str) -> str:
    """The job as TorchX prints it, with ``-0`` for the random end of its name."""
    job = asked("--script", "train.py", "--name", f"neuron/{name}", *arguments)
    same = json.loads(json.dumps(job).replace(job["metadata"]["name"], f"{name}-0"))
    return str(yaml.safe_dump(same, sort_keys=False))


def test_a_gang_finds_its_first_member_by_the_name_that_volcano_exports() -> None:
    job = asked("--script", "dp-bert_large.py", "-j", "3")
    tasks = [task["name"] for task in job["spec"]["tasks"]]
    assert tasks == ["dpbertlarge-0", "dpbertlarge-1", "dpbertlarge-2"]
    exported = f"VC_{tasks[0].replace('-', '_').upper()}_HOSTS"
    assert all(exported in each["command"][-1] for each in containers(job)[1:])


def test_an_elastic_job_starts_with_its_least_number_of_pods() -> None:
    job = patch.patch(asked("--script", "train.py", "-j", "2:4x32")).job
    assert job["spec"]["minAvailable"] == 2


def test_a_job_may_name_a_rendezvous_service_of_its_own() -> None:
    for given, wanted in (
        ((), "c10d --rdzv_endpoint ${"),
        (("--rdzv", "etcd-v2://e:2379"), "etcd-v2 --rdzv_endpoint e:2379 "),
    ):
        job = asked("--script", "train.py", "-j", "2", *given)
        assert all(f"--rdzv_backend {wanted}" in each["command"][-1] for each in containers(job))


def test_a_precompiling_job_shares_its_cache_with_the_real_one() -> None:
    more = ("--cache", "neuron-cache", "--tier", "network-layer-3", "-j", "2")
    compiling, training = (asked("--script", "t.py", *more, "--precompile", word) for word in ("True", "False"))
    assert containers(compiling)[0]["command"][-1].startswith("neuron_parallel_compile torchrun ")
    assert containers(training)[0]["command"][-1].startswith("torchrun ")
    for job in (compiling, training):
        claims = [each.get("persistentVolumeClaim") for each in job["spec"]["tasks"][0]["template"]["spec"]["volumes"]]
        assert {"claimName": "neuron-cache"} in claims
        assert patch.patch(job).job["spec"]["networkTopology"]["highestTierName"] == "network-layer-3"


@pytest.mark.filterwarnings("ignore:.*dist.ddp is deprecated:UserWarning")
def test_what_torchxs_own_component_asks_for_is_put_right() -> None:
    job = asked("--script", "bert-train.py", "-h", "aws_trn1.32xlarge", "-j", "2x32", component="dist.ddp")
    patched = patch.patch(job).job
    for container in containers(patched):
        assert container["resources"]["requests"] | {NEURON: "16", EFA: "8"} == container["resources"]["requests"]
    assert "VC_BERT_TRAIN_0_HOSTS" in containers(patched)[1]["command"][-1]


def test_what_torchx_refuses_is_an_error_of_ours() -> None:
    with pytest.raises(ConfigError, match="TorchX"):
        asked("--script", "t.py", component="no.such")
    with pytest.raises(ConfigError, match="no resource for Neuron is called"):
        asked("--script", "t.py", "-h", "aws_trn1.32xlarge")


def test_the_whole_command_prints_a_job_that_volcano_can_place() -> None:
    command = [str(Path(sys.executable).with_name("hami-plugins")), "neuron", "submit", "--queue", "test", "--dryrun"]
    answer = subprocess.run(
        [*command, "--", *IMAGE, "--script", "train.py", "-j", "2", "--", "--lr", "1"],
        capture_output=True, text=True, check=True, cwd=ROOT,
    )  # fmt: skip
    job = yaml.safe_load(answer.stdout)
    assert job["spec"]["queue"] == "test"
    assert patch.patch(job).changes == ()
    assert all(each["command"][-1].endswith("train.py --lr 1") for each in containers(job))


def test_the_gang_of_the_blueprint_goes_from_torchx_into_a_cluster(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with ApiServer(kinds=VOLCANO) as server:
        for name in ("n0", "n1"):
            server.put(an_idle_node(name))
        queue = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "test"}}
        server.put({**queue, "spec": {"weight": 1}, "status": {"state": "Open"}})
        server.put(a_claim("fsx"))
        kubeconfig = str(server.kubeconfig(tmp_path / "kubeconfig"))
        arguments = (*IMAGE, "--script", "train.py", "-j", "2x32", "--cache", "fsx", "--", "--batch_size", "16")
        said = type_in(capsys, "submit", "--queue", "test", "--kubeconfig", kubeconfig, "--", *arguments)
        (job,) = server.objects("jobs.batch.volcano.sh")
    assert (said.code, said.out) == (0, f"kubernetes://torchx/default:{job['metadata']['name']}\n")
    assert (job["spec"]["queue"], job["spec"]["minAvailable"]) == ("test", 2)
    assert [each["resources"]["requests"][NEURON] for each in containers(job)] == ["16", "16"]


def test_a_workspace_is_built_into_an_image_and_pushed_before_the_jobs_name_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By docker's own client. The base image is not pulled, for the daemon has no registry."""
    (tmp_path / "train.py").write_text("print(1)")
    options = {**OPTIONS, "image_repo": "registry.example.com/team"}
    with docker_daemon() as daemon:
        monkeypatch.setenv("DOCKER_HOST", daemon.address)
        found = driver.requested(
            driver.COMPONENT, (*IMAGE, "--script", "train.py"), options, workspace=f"file://{tmp_path}"
        )
        driver.push(found.images)
    tag = IMAGE_ID.removeprefix("sha256:")
    assert daemon.files["train.py"] == b"print(1)"
    assert json.loads(dict(daemon.calls)["/build"]["buildargs"][0])["IMAGE"] == IMAGE[1]
    assert [each["image"] for each in containers(found.job)] == [f"registry.example.com/team:{tag}"]
    assert [path for path, _ in daemon.calls][-2:] == [
        f"/images/{IMAGE_ID}/tag",
        "/images/registry.example.com/team/push",
    ]


def test_torchx_run_takes_the_component_by_its_file() -> None:
    command = [str(Path(sys.executable).with_name("torchx")), "run", "--workspace", "", "-s", "kubernetes", "--dryrun"]
    options = "queue=test,validate_spec=False" if _asks_the_cluster() else "queue=test"
    answer = subprocess.run(
        [*command, "-cfg", options, driver.COMPONENT, *IMAGE, "--script", "train.py", "-h", "neuron_trn2.48xlarge_8"],
        capture_output=True, text=True, check=True, cwd=ROOT,
    )  # fmt: skip
    job = yaml.safe_load(answer.stdout.partition("=== SCHEDULER REQUEST ===\n")[2])
    assert containers(job)[0]["resources"]["limits"][NEURON] == "8"


def _asks_the_cluster() -> bool:
    with get_runner() as runner:
        return any(name == "validate_spec" for name, _ in runner.scheduler_run_opts("kubernetes"))
