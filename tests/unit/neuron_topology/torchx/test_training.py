"""What is put around the job that TorchX' own component makes."""

from __future__ import annotations

import ast
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hami_plugins.errors import ConfigError
from neuron_topology.core.named_resources import NAMED
from neuron_topology.torchx import training
from neuron_topology.torchx.driver import COMPONENT
from neuron_topology.torchx.training import TrainingJob
from tests.unit.neuron_topology.torchx import stand_in


def a_job(resource: str = "neuron_trn1.32xlarge", **more: Any) -> TrainingJob:
    return TrainingJob(**{"image": "i", "script": "train.py", "resource": resource, "env": {}, **more})


def environment(**more: Any) -> dict[str, str]:
    job = a_job(**more)
    return training.environment(job, NAMED[job.resource])


@pytest.fixture(params=["ddp", "torchrun"])
def asked(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> dict[str, Any]:
    """What TorchX' component is asked for, by its name in older and in newer releases."""
    found: dict[str, Any] = {}

    def launched(*script_args: str, **options: Any) -> Any:
        found.update(options, script_args=script_args)
        return SimpleNamespace(roles=[SimpleNamespace(name="dp-bert_large", args=["-c", "torchrun x"])])

    stand_in.install(monkeypatch, components={"dist": SimpleNamespace(**{request.param: launched})})
    return found


def test_the_job_is_torchxs_own_with_a_process_for_each_core(asked: dict[str, Any]) -> None:
    made = training.app(("--lr", "1"), a_job(shape="2:4", cache="claim", mounts=("type=volume,src=a,dst=/a",)))
    assert asked["script_args"] == ("--lr", "1")
    assert asked["j"] == "2:4x32"
    assert asked["mounts"] == [
        *("type=volume", "src=a", "dst=/a"),
        *("type=volume", "src=claim", "dst=/var/cache/neuron"),
    ]
    assert made.roles[0].name == "dpbertlarge"


@pytest.mark.parametrize(
    "mount", ["type=volume,src=claim,dst=/data", "type=bind,src=/x,dst=/y,type=volume,source=claim,target=/data"]
)
def test_one_claim_for_data_and_graphs_is_mounted_once(asked: dict[str, Any], mount: str) -> None:
    job = a_job(cache="claim", mounts=(mount,))
    training.app((), job)
    assert asked["mounts"] == mount.split(",")
    assert training.cache_path(job) == "/data/neuron-cache"
    assert environment(cache="claim", mounts=(mount,))["NEURON_COMPILE_CACHE_URL"] == "/data/neuron-cache"


def test_a_claim_that_may_only_be_read_takes_no_graphs(asked: dict[str, Any]) -> None:
    job = a_job(cache="claim", mounts=("type=volume,src=claim,dst=/data,readonly",))
    training.app((), job)
    assert asked["mounts"][-1] == "dst=/var/cache/neuron"
    assert training.cache_path(job) == "/var/cache/neuron"


def test_a_cache_may_be_a_path_in_a_mount(asked: dict[str, Any]) -> None:
    job = a_job(cache="/data/graphs", mounts=("type=volume,src=claim,dst=/data",))
    training.app((), job)
    assert asked["mounts"] == ["type=volume", "src=claim", "dst=/data"]
    assert training.cache_path(job) == "/data/graphs"


def test_a_rendezvous_service_of_ones_own_takes_the_place_of_the_store_in_the_first_pod(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    command = "torchrun --rdzv_backend c10d --rdzv_endpoint ${VC_TRAIN_0_HOSTS:=localhost}:29500 --rdzv_id x train.py"

    def launched(*_: str, **_options: Any) -> Any:
        return SimpleNamespace(roles=[SimpleNamespace(name="train", args=["-c", command])])

    stand_in.install(monkeypatch, components={"dist": SimpleNamespace(torchrun=launched)})
    (role,) = training.app((), a_job(rdzv="etcd-v2://etcd-server:2379")).roles
    assert role.args[-1] == "torchrun --rdzv_backend etcd-v2 --rdzv_endpoint etcd-server:2379 --rdzv_id x train.py"
    assert training.app((), a_job()).roles[0].args[-1] == command
    for wrong in ("etcd-server:2379", "etcd://", "etcd://a; rm"):
        with pytest.raises(ConfigError, match="write BACKEND://HOST:PORT"):
            training.app((), a_job(rdzv=wrong))


def test_precompiling_wraps_the_command(asked: dict[str, Any]) -> None:
    assert training.app((), a_job(precompile=True)).roles[0].args == ["-c", "neuron_parallel_compile torchrun x"]
    assert training.app((), a_job()).roles[0].args == ["-c", "torchrun x"]
    assert asked["mounts"] is None


def test_a_torchx_that_can_say_so_tolerates_the_taint(asked: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    overlays: list[tuple[Any, ...]] = []
    stand_in.install(
        monkeypatch,
        components={"dist": SimpleNamespace(ddp=lambda *_, **__: SimpleNamespace(roles=[SimpleNamespace(name="r")]))},
        specs={},
        specs__overlays={"set_overlay": lambda *given: overlays.append(given)},
    )
    training.app((), a_job())
    ((_, *overlay),) = overlays
    toleration = {"key": "aws.amazon.com/neuron", "operator": "Exists", "effect": "NoSchedule"}
    assert overlay == ["kubernetes", "V1Pod", {"spec": {"tolerations": [toleration]}}]


def test_processes_can_be_given() -> None:
    assert training.shape("2x1", NAMED["neuron_trn1.2xlarge"]) == "2x1"


@pytest.mark.parametrize(("role", "plain"), [("dp-bert_large", "dpbertlarge"), ("bert", "bert"), ("--", "--")])
def test_a_role_has_one_name_for_torchx_and_volcano(role: str, plain: str) -> None:
    assert training.plain_name(role) == plain


def test_only_machines_with_efa_are_told_of_it() -> None:
    assert environment()["FI_PROVIDER"] == "efa"
    assert "FI_PROVIDER" not in environment(resource="neuron_inf2.48xlarge")


def test_the_cache_is_one_for_all_pods_and_other_flags_stay() -> None:
    assert environment(cache="claim")["NEURON_CC_FLAGS"] == "--cache_dir=/var/cache/neuron"
    both = environment(cache="claim", env={"NEURON_CC_FLAGS": "--model-type=transformer", "FI_PROVIDER": "tcp"})
    assert both["NEURON_CC_FLAGS"] == "--model-type=transformer --cache_dir=/var/cache/neuron"
    assert both["FI_PROVIDER"] == "tcp"
    own = {"NEURON_CC_FLAGS": "--cache_dir=/mine"}
    assert environment(cache="claim", env=own)["NEURON_CC_FLAGS"] == "--cache_dir=/mine"
    assert "NEURON_CC_FLAGS" not in environment()


def test_the_setting_of_logical_cores_is_in_the_environment_the_compiler_and_the_processes() -> None:
    trn2 = "neuron_trn2.48xlarge"
    found = environment(resource=trn2, lnc=1, cache="claim")
    assert found["NEURON_LOGICAL_NC_CONFIG"] == "1"
    assert found["NEURON_CC_FLAGS"] == "--cache_dir=/var/cache/neuron --lnc=1"
    assert training.shape("2", NAMED[trn2], 1) == "2x128"
    assert training.shape("2", NAMED[trn2]) == "2x64"
    own = environment(resource=trn2, lnc=1, env={"NEURON_CC_FLAGS": "--logical-nc-config=2"})
    assert own["NEURON_CC_FLAGS"] == "--logical-nc-config=2"


@pytest.mark.parametrize(
    ("resource", "lnc", "said"),
    [
        ("neuron_trn2.48xlarge", 4, "lnc 4: trn2.48xlarge has 1 or 2"),
        ("neuron_trn1.32xlarge", 2, "has no such setting"),
    ],
)
def test_a_setting_that_the_machine_does_not_have_is_refused(resource: str, lnc: int, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        training.app((), a_job(resource, lnc=lnc))


def test_what_the_job_says_itself_comes_last() -> None:
    found = environment(bf16=True, env={"XLA_DOWNCAST_BF16": "0", "A": "b"})
    assert (found["XLA_DOWNCAST_BF16"], found["A"]) == ("0", "b")


def test_the_tier_is_handed_on_in_the_environment() -> None:
    assert environment(tier="ultraserver-4")["NEURON_NETWORK_TIER"] == "ultraserver-4"
    with pytest.raises(ConfigError, match="no tier is called rack"):
        environment(tier="rack")


def test_an_unknown_resource_is_refused_with_those_there_are() -> None:
    with pytest.raises(ConfigError, match=r"called aws_trn1\.32xlarge; there are neuron_inf1\.xlarge, "):
        training.app((), a_job(resource="aws_trn1.32xlarge"))


def test_the_component_describes_all_its_arguments_in_types_that_torchx_reads() -> None:
    file, _, name = COMPONENT.rpartition(":")
    (function,) = [
        each
        for each in ast.parse(Path(file).read_text()).body
        if isinstance(each, ast.FunctionDef) and each.name == name
    ]
    arguments = [each for each in (*function.args.kwonlyargs, function.args.vararg) if each is not None]
    described = ast.get_docstring(function) or ""
    assert all(f"\n    {each.arg}: " in described for each in arguments)
    spelled = {ast.unparse(each.annotation) for each in arguments if each.annotation is not None}
    assert spelled <= {"str", "int", "bool", "Optional[str]", "Optional[Dict[str, str]]", "Optional[List[str]]"}


def test_a_resource_that_there_is_not_is_answered_with_those_that_are_next_to_it() -> None:
    of_the_type = "neuron_inf2.24xlarge, neuron_inf2.24xlarge_1, neuron_inf2.24xlarge_2, neuron_inf2.24xlarge_4"
    with pytest.raises(ConfigError, match=f"_3; there are {of_the_type}$"):
        training.app((), a_job("neuron_inf2.24xlarge_3"))
    with pytest.raises(ConfigError, match=r"neuron_trn2u\.48xlarge, and with _1, _2, _4, _8 or _16"):
        training.app((), a_job("neuron_trn9.32xlarge_4"))
