"""Where upstream's documents and its code disagree, we do what the code does: one claim per row."""

from collections.abc import Callable, Mapping

import pytest

from hami_plugins.engine import mig, quota
from hami_plugins.engine.demand import request_of
from hami_plugins.engine.intake import Rules, take_in
from hami_plugins.engine.mutate import WebhookSettings, admit
from hami_plugins.engine.place import Placer
from hami_plugins.engine.policies import DEVICE_POLICY_KEY, PolicyDefaults, policy_of
from hami_plugins.model.cluster import NamespaceQuota
from hami_plugins.model.devices import Profile, SlicePlacement
from hami_plugins.model.policy import DEFAULT_POLICY, SortKey
from hami_plugins.model.quantity import NANO
from hami_plugins.model.requests import Absolute, ContainerKind, DeviceRequest, Percent
from hami_plugins.model.units import CoreShare, MiB, VendorName
from hami_plugins.model.vendor import VendorSpec
from hami_plugins.model.verdicts import Fit
from hami_plugins.vendors import ascend, builtin, kunlun
from hami_plugins.wire import node_devices
from tests import builders
from tests.golden import cases

REGISTRY = builtin()

DEVIATIONS = {
    "docsvscode-002": "whether a silent node agent is dead is for HAMi's scheduler to say; we read what is registered",
    "docsvscode-022": "all cores of a device can be handed out, by what its node says of them; HAMi stops at two",
}
"""What differs from the code on purpose; the claim below is then ours."""


def spec(name: str) -> VendorSpec:
    return REGISTRY[VendorName(name)]


def asked(name: str, limits: Mapping[str, int | str], annotations: Mapping[str, str] | None = None) -> DeviceRequest:
    """What a pod of one container asks of a vendor after the webhook."""
    pod = builders.a_pod(builders.a_container(limits), annotations=annotations)
    admitted = admit(pod, REGISTRY, WebhookSettings())
    assert admitted.allowed, admitted.message
    found = request_of(spec(name), admitted.pod.containers[0], admitted.pod)
    assert found is not None
    return found


def denied(limits: Mapping[str, int | str]) -> bool:
    return not admit(builders.a_pod(builders.a_container(limits)), REGISTRY, WebhookSettings()).allowed


def mig_needs_no_geometry() -> None:
    small = Profile("1g.5gb", MiB(5120), CoreShare(14), 1, (SlicePlacement(0, 1), SlicePlacement(1, 1)))
    large = Profile("2g.10gb", MiB(10240), CoreShare(28), 2, (SlicePlacement(2, 2),))
    taken = [SlicePlacement(0, 1)]
    assert mig.choose([small, large], MiB(6000), taken) == (large, SlicePlacement(2, 2))
    assert mig.choose([small, large], MiB(5000), taken) == (small, SlicePlacement(1, 1))


def registers_are_json() -> None:
    assert node_devices.decode_json("test", '[{"id":"GPU-a","count":1}]')[0].slots == 1


def memory_wins_over_its_percentage() -> None:
    found = asked("NVIDIA", {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 100, "nvidia.com/gpumem-percentage": 50})
    assert found.memory == Absolute(MiB(100))


def device_policy_is_the_pods() -> None:
    policies = {words: policy_of({DEVICE_POLICY_KEY: words}, PolicyDefaults()) for words in ("numa", "mutex,binpack")}
    assert policies["numa"].order[0] is SortKey.HIGH_NUMA
    assert policies["mutex,binpack"].exclusive
    assert policy_of({DEVICE_POLICY_KEY: "topology-aware"}, PolicyDefaults()).near


def quotas_leave_counts_alone() -> None:
    hard = {"limits.nvidia.com/gpu": 1 * NANO}
    assert quota.headroom(NamespaceQuota(namespace="default", hard=hard), {}, REGISTRY) == ()
    hard["limits.nvidia.com/gpumem"] = 1 * NANO
    assert quota.headroom(NamespaceQuota(namespace="default", hard=hard), {}, REGISTRY)


def several_cards_are_allowed() -> None:
    for name in ("NVIDIA", "MLU", "DCU", "Ascend910B3", "Metax-GPU", "kunlun", "AWSNeuron"):
        assert asked(name, {spec(name).resources.count: 2}).count == 2


def cambricon_counts_256_mib() -> None:
    assert asked("MLU", {"cambricon.com/vmlu": 1, "cambricon.com/mlu.smlu.vmemory": 2}).memory == Absolute(MiB(512))


def cambricon_amounts_are_per_card_and_models_unread() -> None:
    limits = {"cambricon.com/vmlu": 2, "cambricon.com/mlu.smlu.vmemory": 2, "cambricon.com/mlu.smlu.vcore": 30}
    found = asked("MLU", limits, {"cambricon.com/use-mlutype": "nothing"})
    assert (found.count, found.memory, found.cores) == (2, Absolute(MiB(512)), 30)
    assert found.selector.use_models is None


def cambricon_names_are_the_charts() -> None:
    assert spec("MLU").resources.memory == "cambricon.com/mlu.smlu.vmemory"
    assert REGISTRY.owner_of("cambricon.com/mlu370.smlu.vmemory") is None


def init_containers_get_devices(*names: str) -> Callable[[], None]:
    def claim() -> None:
        for name in names:
            init = builders.a_container({spec(name).resources.count: 1}, name="init", kind=ContainerKind.INIT)
            intake = take_in(builders.a_pod(init, builders.a_container({})), REGISTRY, Rules())
            assert [len(each.requests) for each in intake.demand.devices.containers] == [1, 0]

    return claim


def hygon_cards_may_be_slices() -> None:
    found = asked("DCU", {"hygon.com/dcunum": 2, "hygon.com/dcumem": 100, "hygon.com/dcucores": 10})
    assert (found.count, found.memory, found.cores) == (2, Absolute(MiB(100)), 10)


def kunlun_scores_nodes_0_to_3000() -> None:
    cards = [builders.a_device(vendor="kunlun", index=at, memory=kunlun.CARD_MEMORY) for at in range(8)]
    scores = set()
    for count in (1, 2, 4, 8):
        request = builders.a_request(vendor="kunlun", count=count, memory=Percent(100))
        verdict = Placer(builders.a_demand(request), DEFAULT_POLICY, REGISTRY)(builders.a_state(*cards))
        assert isinstance(verdict, Fit)
        scores.add(verdict.score)
    assert scores == {0.0, 1000.0, 2000.0, 3000.0}


def kunlun_wings_are_crossed_along_links() -> None:
    assert kunlun.choose([3, 7], 2) == [3, 7]
    assert kunlun.choose([2, 7], 2) == ()
    assert kunlun.choose([0, 1, 4, 5, 6], 4) == [0, 1, 4, 5]


def kunlun_takes_1_2_4_or_8() -> None:
    assert [count for count in range(1, 9) if kunlun.choose(range(8), count)] == [1, 2, 4, 8]


def ascend_memory_is_per_card() -> None:
    limits = {"huawei.com/Ascend910B3": 2, "huawei.com/Ascend910B3-memory": 1000}
    found = asked("Ascend910B3", limits, {ascend.POD_MODE_KEY: ascend.SOFT})
    assert (found.count, found.memory) == (2, Absolute(MiB(1000)))


def ascend_webhook_adds_nothing_for_soft_pods() -> None:
    container = builders.a_container({"huawei.com/Ascend910B3": 1, "huawei.com/Ascend910B3-memory": 1000})
    pod = builders.a_pod(container, annotations={ascend.POD_MODE_KEY: ascend.SOFT})
    changes = admit(pod, REGISTRY, WebhookSettings()).changes
    assert {each.change.kind for each in changes} == {"request", "schedulerName"}


def ascend_910b_is_spelled_out() -> None:
    assert REGISTRY.owner_of("huawei.com/Ascend910B") is None
    assert {"Ascend910B2", "Ascend910B3", "Ascend910B4", "Ascend910B4-1"} <= {each.name for each in REGISTRY}


def only_the_910c_rounds_up_to_modules() -> None:
    assert [chip.word for chip in ascend.CHIPS if chip.super_pod] == ["Ascend910C"]
    assert asked("Ascend910C", {"huawei.com/Ascend910C": 1}).count == 2
    assert denied({"huawei.com/Ascend910C": 3})


def amd_cores_are_1_to_100() -> None:
    assert asked("AMD", {"amd.com/gpu": 1}).cores == 100
    assert denied({"amd.com/gpu": 1, "amd.com/gpucores": 0})
    assert not denied({"amd.com/gpu": 1, "amd.com/gpucores": 1})


def amd_takes_the_shared_lock() -> None:
    assert spec("AMD").keys.lock == "hami.io/mutex.lock"


def neuron_cores_are_the_nodes() -> None:
    node = builders.a_node_object(capacity={"aws.amazon.com/neuron": 1, "aws.amazon.com/neuroncore": 8})
    (device,) = spec("AWSNeuron").inventory(spec("AWSNeuron"), node).devices
    request = builders.a_request(vendor="AWSNeuron", memory=0, cores=2)
    verdict = Placer(builders.a_demand(*[request] * 4), DEFAULT_POLICY, REGISTRY)(builders.a_state(device))
    assert isinstance(verdict, Fit)


def metax_whole_cards_are_not_shared() -> None:
    node = builders.a_node_object(capacity={"metax-tech.com/gpu": 1})
    (device,) = spec("Metax-GPU").inventory(spec("Metax-GPU"), node).devices
    assert device.slots == 1


def enflame_knows_slices_and_amounts() -> None:
    assert REGISTRY.owner_of("enflame.com/vgcu") is None
    assert asked("Enflame", {"enflame.com/drs-gcu": 3}).slices == 3
    assert asked("Enflame", {"enflame.com/gcu-memory": 20480, "enflame.com/gcu-core": 40}).cores == 40


CLAIMS: tuple[Callable[[], None], ...] = (
    mig_needs_no_geometry,
    registers_are_json,
    memory_wins_over_its_percentage,
    device_policy_is_the_pods,
    quotas_leave_counts_alone,
    several_cards_are_allowed,
    cambricon_counts_256_mib,
    cambricon_amounts_are_per_card_and_models_unread,
    cambricon_names_are_the_charts,
    init_containers_get_devices("DCU", "MLU", "MR-V100"),
    hygon_cards_may_be_slices,
    kunlun_scores_nodes_0_to_3000,
    kunlun_wings_are_crossed_along_links,
    kunlun_takes_1_2_4_or_8,
    ascend_memory_is_per_card,
    ascend_webhook_adds_nothing_for_soft_pods,
    ascend_910b_is_spelled_out,
    init_containers_get_devices("Ascend910B3"),
    only_the_910c_rounds_up_to_modules,
    amd_cores_are_1_to_100,
    amd_takes_the_shared_lock,
    neuron_cores_are_the_nodes,
    metax_whole_cards_are_not_shared,
    enflame_knows_slices_and_amounts,
)
"""In the order of the rows."""

ROWS = cases.of("hami-vendors/docs-vs-code.yaml")


@pytest.mark.parametrize("claim", [pytest.param(claim, id=row.id) for row, claim in zip(ROWS, CLAIMS, strict=True)])
def test_we_do_what_the_code_does(claim: Callable[[], None]) -> None:
    claim()


def test_every_deviation_is_a_row() -> None:
    assert set(DEVIATIONS) <= {row.id for row in ROWS}
