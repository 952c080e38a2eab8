"""The vectors about what HAMi's device plugin registers and answers the kubelet, for the agent in HAMi's dialect."""

from __future__ import annotations

from typing import Any

from hami_plugins.model.units import CoreShare, DeviceId, MiB, PodUid
from hami_plugins.wire.pod_devices import AssignedDevice
from tests.golden.cases import Case, each
from tests.unit.volcano_vgpu.cards import card, settings, uuid
from volcano_vgpu.core import hami_register
from volcano_vgpu.core.edits import ContainerEdits, EditSettings, Owner, edits_of
from volcano_vgpu.core.model import DeviceLink, NodeInventory
from volcano_vgpu.core.shares import AllocatedContainer, ContainerShare

HOOK = "/usr/local"
"""HAMi's default; the library is in ``vgpu`` below it, which is what the agent's setting names."""

DEVIATIONS = {
    "plugin-mount-02": "directories of containers are where they are under Volcano: a node keeps them when its dialect "
    "changes",
    "plugin-env-04": "the cache is named after pod and container, so that a container that starts again finds it",
}
VARIABLES: dict[str, dict[str, Any]] = {
    "CUDA_OVERSUBSCRIBE": {"device_memory_scaling": 1.8},
    "LIBCUDA_LOG_LEVEL": {"container": {"log_level": 1}},
    "GPU_CORE_UTILIZATION_POLICY": {"disable_core_limit": True},
}
CLASSES = {
    "cross-CPU": "pcie-system",
    "same CPU": "pcie-node",
    "host bridge": "pcie-hostbridge",
    "multiple switches": "pcie-multiple",
    "single switch": "pcie-single",
    "same board": "pcie-internal",
}


def made(
    *devices: tuple[int, int], env: dict[str, str] | None = None, licensed: bool = False, **set_: Any
) -> ContainerEdits:
    given = AllocatedContainer(
        tuple(
            ContainerShare(
                AssignedDevice(DeviceId(f"GPU-{at}"), "NVIDIA", MiB(memory), CoreShare(cores)),
                DeviceId(f"GPU-{at}"),
                DeviceId(f"GPU-{at}"),
            )
            for at, (memory, cores) in enumerate(devices or ((3000, 50),))
        )
    )
    raw = {"name": "c", "env": [{"name": name, "value": value} for name, value in (env or {}).items()]}
    owner = Owner(pod_uid=PodUid("uid-1"), container="c", raw=raw)
    chosen = EditSettings.of(settings(dialect="hami", hook_path=f"{HOOK}/vgpu", **set_), licensed=licensed)
    return edits_of(given, owner, chosen, NodeInventory())


@each("hami-core/plugin-env.yaml")
def test_a_variable_of_hamis_plugin_is_set(case: Case) -> None:
    name = case.given["env"].replace("<i>", "1")
    if name in VARIABLES:
        assert name not in dict(made().env)
    found = dict(made((3000, 50), (4000, 60), **VARIABLES.get(name, {})).env)[name]
    wanted = {
        "NVIDIA_VISIBLE_DEVICES": "GPU-0,GPU-1",
        "CUDA_DEVICE_MEMORY_LIMIT_1": "4000m",
        "CUDA_DEVICE_SM_LIMIT": "50",
        "LIBCUDA_LOG_LEVEL": "1",
    }.get(name, case.expect["value"])
    if case.id in DEVIATIONS:
        assert found.startswith(f"{HOOK}/vgpu/")
        assert found.endswith(".cache")
    else:
        assert found == wanted


@each("hami-core/plugin-mounts.yaml")
def test_a_mount_of_hamis_plugin_is_made(case: Case) -> None:
    inside = "{dir}/{name}".format(**case.given["container_path"]).replace("<HOOK>", HOOK)
    mounts = {mount.container_path: mount for mount in made(licensed=True).mounts}
    wanted = "{dir}/{name}".format(**case.expect["host_path"])
    for part, text in {"<HOOK>": HOOK, "<podUID>": "uid-1", "<container>": "c", ".<version>": ""}.items():
        wanted = wanted.replace(part, text)
    if case.id in DEVIATIONS:
        wanted = wanted.replace("/containers/", "/vgpu/containers/")
    assert (mounts[inside].host_path, mounts[inside].read_only) == (wanted, case.expect["read_only"])
    if "license" in case.expect["when"]:
        assert inside not in {mount.container_path for mount in made().mounts}


@each("hami-core/plugin-response.yaml")
def test_the_answer_of_hamis_plugin_is_given(case: Case) -> None:
    set_ = case.given["config"]
    for given, wanted in zip(case.given["containers"], case.expect["containers"], strict=True):
        devices = [(each["mem"], each["cores"]) for each in given.get("devices", ())]
        found = made(*devices, env=given["env"], **set_)
        env, paths = dict(found.env), {mount.container_path for mount in found.mounts}
        assert wanted.get("envs", {}).items() <= env.items()
        assert env.keys().isdisjoint(wanted.get("envs_absent", ()))
        assert set(wanted.get("mounts_present", ())) <= paths
        assert paths.isdisjoint(wanted.get("mounts_absent", ()))


@each("hami-core/register-type.yaml")
def test_a_card_has_the_type_that_hamis_plugin_gives_it(case: Case) -> None:
    assert hami_register.type_of(case.given["product"]) == case.expect["type"]


@each("hami-core/pair-score.yaml")
def test_a_pair_of_cards_has_the_score_that_hamis_plugin_gives_it(case: Case) -> None:

    def links(peer: int, lanes: int) -> tuple[DeviceLink, ...]:
        common = DeviceLink(peer=uuid(peer), kind=CLASSES[case.given["p2p_class"]])
        return (common, DeviceLink(peer=uuid(peer), kind="nvlink", lanes=lanes)) if lanes else (common,)

    lanes = case.given["nvlinks"]
    cards = [card(0, links=links(1, lanes)), card(1, links=links(0, lanes if case.given["symmetric"] else 0))]
    assert hami_register.pair_scores(cards).get(uuid(0), {}).get(uuid(1), 0) == case.expect["score"]
