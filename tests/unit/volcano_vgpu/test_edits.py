"""What a container gets, beyond what the vectors say."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hami_plugins.model.units import PodUid
from tests.unit.volcano_vgpu.allocated_pods import container, offer, pod, question
from volcano_vgpu.agent.config import load
from volcano_vgpu.core.allocations import allocations_of
from volcano_vgpu.core.edits import ContainerEdits, EditSettings, Owner, answer, cdi_device, container_in, edits_of
from volcano_vgpu.core.identity import NONCE_KEY
from volcano_vgpu.core.model import SharingMode
from volcano_vgpu.core.shares import AllocatedContainer

SETTINGS = EditSettings()
TWO = "GPU-a,NVIDIA,2000,30:GPU-b,NVIDIA,3000,40:"


def made(settings: EditSettings = SETTINGS, uid: str = "uid-p", ids: str = TWO, **about: Any) -> ContainerEdits:
    raw = pod(container("main", count=2, **about), ids=ids)
    allocated = allocations_of(raw, question({"main": 2}), offer())["main"]
    assert isinstance(allocated, AllocatedContainer)
    owner = Owner(pod_uid=PodUid(uid), container="main", raw=container_in(raw, "main"))
    return edits_of(allocated, owner, settings, offer().inventory)


def mounted(edits: ContainerEdits) -> dict[str, str]:
    return {mount.container_path: mount.host_path for mount in edits.mounts}


def test_every_card_has_its_own_limits() -> None:
    env = dict(made().env)
    assert [env[f"CUDA_DEVICE_SM_LIMIT_{at}"] for at in (0, 1)] == ["30", "40"]
    assert [env[f"CUDA_DEVICE_MEMORY_LIMIT_{at}"] for at in (0, 1)] == ["2000m", "3000m"]


def test_the_cache_is_the_same_at_every_start_and_another_for_every_pod() -> None:
    caches = [dict(made(uid=uid).env)["CUDA_DEVICE_MEMORY_SHARED_CACHE"] for uid in ("u", "u", "v")]
    assert caches[0] == caches[1] != caches[2]


@pytest.mark.parametrize(
    ("change", "name", "value"),
    [
        ({"disable_core_limit": True}, "GPU_CORE_UTILIZATION_POLICY", "disable"),
        ({"core_policy": "force"}, "GPU_CORE_UTILIZATION_POLICY", "force"),
        ({"log_level": 0}, "LIBCUDA_LOG_LEVEL", "0"),
        ({"active_oom_killer": True}, "ACTIVE_OOM_KILLER", "true"),
        ({"memory_scaling": 1.5}, "CUDA_OVERSUBSCRIBE", "true"),
        ({"priority": "volcano.sh/vgpu-number"}, "CUDA_TASK_PRIORITY", "2"),
        ({"mode": SharingMode.MPS}, "CUDA_MPS_PIPE_DIRECTORY", "/mps/pipe"),
        ({"mode": SharingMode.MPS}, "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", "0=2000M,1=3000M"),
        ({"mode": SharingMode.MPS, "factor": 4}, "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", "0=8000M,1=12000M"),
        ({"mode": SharingMode.MPS}, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "30"),
    ],
)
def test_a_setting_is_a_variable(change: dict[str, Any], name: str, value: str) -> None:
    assert name not in dict(made().env)
    assert dict(made(replace(SETTINGS, **change)).env)[name] == value


@pytest.mark.parametrize(
    ("cores", "disabled", "expected"),
    [("0", False, None), ("30", True, None), ("30", False, "30"), ("100", False, "100")],
)
def test_mps_limits_threads_where_cores_are_limited(cores: str, expected: str | None, *, disabled: bool) -> None:
    settings = replace(SETTINGS, mode=SharingMode.MPS, disable_core_limit=disabled)
    env = dict(made(settings, ids=f"GPU-a,NVIDIA,2000,{cores}:GPU-b,NVIDIA,3000,{cores}:").env)
    assert env.get("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE") == expected
    assert env["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] == "0=2000M,1=3000M"


def test_the_agents_settings_reach_the_containers() -> None:
    text = """
mode: mps
gpuMemoryFactor: 4
deviceMemoryScaling: 1.5
hookPath: /opt/vgpu
lockPath: /opt/lock
disableCoreLimit: true
resources: {priority: example.com/priority}
container: {corePolicy: force, logLevel: 3, activeOomKiller: true, gdrcopy: false, gds: false, mofed: false}
"""
    assert EditSettings.of(load(text, {"NODE_NAME": "n1"}), ("/dev/nvidiactl",)) == EditSettings(
        mode=SharingMode.MPS,
        factor=4,
        memory_scaling=1.5,
        hook_path="/opt/vgpu",
        lock_path="/opt/lock",
        disable_core_limit=True,
        core_policy="force",
        log_level=3,
        active_oom_killer=True,
        gdrcopy=False,
        gds=False,
        mofed=False,
        priority="example.com/priority",
        device_nodes=("/dev/nvidiactl",),
    )
    assert EditSettings.of(load("", {"NODE_NAME": "n1"})) == SETTINGS


@pytest.mark.parametrize(("value", "loaded"), [("true", False), ("1", False), ("maybe", False), ("false", True)])
def test_a_container_may_do_without_the_library(value: str, loaded: bool) -> None:
    assert ("/etc/ld.so.preload" in mounted(made(env={"CUDA_DISABLE_CONTROL": value}))) is loaded


def test_an_init_container_is_found_by_its_name_and_a_stranger_is_not() -> None:
    raw = pod(init=[container("init", count=1)])
    assert container_in(raw, "init")["name"] == "init"
    assert container_in(raw, "ghost") == {}


def test_device_files_are_those_of_the_allocated_cards() -> None:
    assert made().device_nodes == ()
    nodes = made(replace(SETTINGS, device_nodes=("/dev/nvidiactl",))).device_nodes
    assert nodes == ("/dev/nvidiactl", "/dev/nvidia0", "/dev/nvidia1")


def test_a_cdi_device_and_an_answer_say_the_same() -> None:
    edits = made(replace(SETTINGS, device_nodes=("/dev/nvidiactl",)))
    changes = cdi_device("n", edits, {"a": "b"})["containerEdits"]
    said = answer("n", edits)
    assert {f"{key}={value}" for key, value in said.envs.items()} == set(changes["env"])
    assert [(mount.host_path, mount.container_path, mount.read_only) for mount in said.mounts] == [
        (mount["hostPath"], mount["containerPath"], "ro" in mount["options"]) for mount in changes["mounts"]
    ]
    assert [device.host_path for device in said.devices] == [node["path"] for node in changes["deviceNodes"]]
    assert said.annotations[NONCE_KEY] == "n"
    assert "mounts" not in cdi_device("n", ContainerEdits(env=(("A", "b"),)), {})["containerEdits"]
