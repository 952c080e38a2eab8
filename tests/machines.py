"""A machine of every vendor, as its Node object, and what containers ask of it.

A vendor that is not in the table gets the plain machine: eight cards in a JSON register.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from hami_plugins.engine.inventory import NodeBuilder
from hami_plugins.engine.registry import Registry
from hami_plugins.model.devices import Profile, SlicePlacement
from hami_plugins.model.nodes import NodeEntry
from hami_plugins.model.units import CoreShare, DeviceId, MiB
from hami_plugins.model.vendor import VendorSpec
from hami_plugins.vendors import BUILTIN, ascend, iluvatar, metax, volcano
from hami_plugins.wire import drs, node_devices, objects
from hami_plugins.wire.documents import Scalar
from hami_plugins.wire.metax import SharedCard, encode_cards
from hami_plugins.wire.node_devices import RegisteredDevice
from hami_plugins.wire.volcano import encode_register
from hami_plugins.wire.volcano_config import Geometry, VolcanoConfig

Raw = dict[str, Any]
Limits = Mapping[str, int | str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Says:
    """What a node says of its devices."""

    annotations: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    capacity: Limits = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A kind of node: ``says`` what one of that name says, ``asks`` what containers may ask of it, small amounts first.

    ``words`` are annotations that pods for it may carry. ``rounds`` marks machines whose cards are cut into partitions,
    the cores of which are rounded, so that all of them together may come to more than the card has. With ``summed`` a
    request is the sum of a pod's containers, so that all of them have to ask in the same words.
    """

    name: str
    vendor: str
    says: Callable[[str], Says]
    asks: tuple[Limits, ...]
    published: Callable[[str], object] | None = None
    words: tuple[Mapping[str, str], ...] = ({},)
    rounds: bool = False
    summed: bool = False

    def node(self, name: str) -> Raw:
        """The Node object."""
        says = self.says(name)
        capacity = {
            "cpu": "64",
            "memory": "512Gi",
            "pods": "110",
            **{key: str(each) for key, each in says.capacity.items()},
        }
        return {
            "kind": "Node",
            "metadata": {"name": name, "annotations": dict(says.annotations), "labels": dict(says.labels)},
            "status": {"capacity": capacity, "allocatable": capacity},
        }

    def entry(self, registry: Registry, name: str = "node-0") -> NodeEntry:
        """The node as decisions see it."""
        raw = self.node(name)
        node = objects.node_object(raw)
        if self.published is not None:
            node = node._replace(published=self.published(name))
        return NodeBuilder(registry).entry(node, objects.node_facts(raw))


def _device(
    node: str, at: int, *, memory: int, cores: int = 100, slots: int = 10, model: str, **facts: Any
) -> RegisteredDevice:
    return RegisteredDevice(
        id=DeviceId(f"{node}-{model.lower().replace(' ', '-')}-{at}"),
        index=at,
        slots=slots,
        memory=MiB(memory),
        cores=CoreShare(cores),
        model=model,
        healthy=True,
        **{"numa": at // 2, **facts},
    )


def _in_json(key: str, count: int, capacity: Limits | None = None, **facts: Any) -> Callable[[str], Says]:
    """A JSON register; ``custom`` may be a function of the device's number."""
    custom: Callable[[int], Mapping[str, Scalar]] = facts.pop("custom", lambda at: {})

    def says(node: str) -> Says:
        devices = (_device(node, at, custom=custom(at), **facts) for at in range(count))
        return Says(annotations={key: node_devices.encode_json(devices)}, capacity=capacity or {})

    return says


def _in_text(key: str, count: int, **facts: Any) -> Callable[[str], Says]:
    def says(node: str) -> Says:
        return Says(annotations={key: node_devices.encode_csv(_device(node, at, **facts) for at in range(count))})

    return says


def _counts(resources: Mapping[str, int], label: str = "") -> Callable[[str], Says]:
    labels = {"node.kubernetes.io/instance-type": label} if label else {}
    return lambda _: Says(capacity=resources, labels=labels)


def _linked_gpus(node: str) -> Says:
    says = _in_json("hami.io/node-nvidia-register", 4, memory=81_920, model="NVIDIA A100", mode="hami-core")(node)
    ids = [device.id for device in node_devices.decode_json("", says.annotations["hami.io/node-nvidia-register"])]
    scores = {
        one: {other: 200 if at // 2 == to // 2 else 20 for to, other in enumerate(ids) if to != at}
        for at, one in enumerate(ids)
    }
    scored = {"hami.io/node-nvidia-score": node_devices.encode_pair_scores(scores)}
    return Says(annotations={**says.annotations, **scored})


def _profile(name: str, memory: int, cores: int, starts: tuple[int, ...], size: int) -> Profile:
    places = tuple(SlicePlacement(start, size) for start in starts)
    return Profile(name, MiB(memory), CoreShare(cores), int(name[0]), places)


H100_PROFILES: Final = (
    _profile("1g.10gb", 9_856, 13, (0, 1, 2, 3, 4, 5, 6), 1),
    _profile("2g.20gb", 20_096, 25, (0, 2, 4), 2),
    _profile("3g.40gb", 40_448, 46, (0, 4), 4),
    _profile("7g.80gb", 80_896, 100, (0,), 8),
)


def _slices(_: str) -> Says:
    cards = tuple(drs.DrsCard(at, str(at + 1), 6) for at in range(3))
    node = drs.DrsNode(cards, {"1g.6gb": "0", "2g.12gb": "1", "3g.20gb": "2", "6g.40gb": "3"})
    return Says(annotations={drs.CAPACITY_KEY: drs.encode_node(node)})


def _metalink(node: str) -> Says:
    cards = (
        SharedCard(
            id=DeviceId(f"{node}-sgpu-{at}"),
            model="C500",
            slots=8,
            cores=CoreShare(100),
            memory=MiB(65_536),
            numa=at // 2,
            healthy=True,
            link_zone=at // 2,
        )
        for at in range(5)
    )
    return Says(annotations={metax.CARDS_KEY: encode_cards(cards)})


def _volcano_gpus(node: str) -> Says:
    devices = [_device(node, at, memory=32_768, model="NVIDIA-V100", mode="hami-core") for at in range(3)]
    capacity = {"volcano.sh/vgpu-number": 30, "volcano.sh/vgpu-memory": 3 * 32_768, "volcano.sh/vgpu-cores": 300}
    return Says(annotations={"volcano.sh/node-vgpu-register": encode_register(devices)}, capacity=capacity)


def _npus(chip: ascend.Chip) -> Machine:
    """Eight dies of one chip, in rings of four."""
    resource = f"huawei.com/{chip.word}"
    small = chip.card.templates[0].memory
    several = (2,) if chip.has_modules else (1, 2)
    asks: list[Limits] = [{resource: 1, f"{resource}-memory": small}] if 1 in several else []
    asks += [{resource: count} for count in (*several, 4)]
    return Machine(
        name=chip.word,
        vendor=chip.word,
        says=_in_json(
            f"hami.io/node-register-{chip.word}",
            8,
            memory=chip.card.usable,
            cores=chip.ai_cores,
            slots=chip.card.slots,
            model=chip.word,
            custom=lambda at: {"NetworkID": at // 4},
        ),
        asks=tuple(asks),
    )


def _shared_npus(node: str) -> Says:
    says = _in_json("hami.io/node-register-Ascend910B3", 4, memory=65_536, cores=20, slots=8, model="Ascend910B3")(node)
    return Says(annotations={**says.annotations, ascend.NODE_MODE_KEY: "true"})


def _iluvatar(model: str) -> Machine:
    count, memory, cores = (f"iluvatar.ai/{model}{suffix}" for suffix in ("-vgpu", ".vMem", ".vCore"))
    return Machine(
        name=model,
        vendor=model,
        says=_in_text(f"hami.io/node-{model}-register", 3, memory=32_768, model=f"Iluvatar {model}"),
        asks=({count: 1, memory: 16, cores: 20}, {count: 1, memory: 64}, {count: 2}, {count: 1}),
    )


_NVIDIA: Final = ("nvidia.com/gpu", "nvidia.com/gpumem", "nvidia.com/gpucores")
_POLICIES: Final[tuple[Mapping[str, str], ...]] = tuple(
    {"hami.io/gpu-scheduler-policy": words} for words in ("binpack", "mutex", "topology-aware", "numa,spread")
)


def _volcano_mig(node: str) -> Says:
    """Cards that are cut by the groups of Volcano's configuration."""
    devices = [_device(node, at, memory=24_576, slots=4, model="NVIDIA-A30", mode="mig") for at in range(2)]
    capacity = {"volcano.sh/vgpu-number": 8, "volcano.sh/vgpu-memory": 2 * 24_576, "volcano.sh/vgpu-cores": 200}
    return Says(annotations={"volcano.sh/node-vgpu-register": encode_register(devices)}, capacity=capacity)


def _cut(group: str, name: str, memory: int, count: int) -> Profile:
    places = tuple(SlicePlacement(at, 1) for at in range(count))
    return Profile(name, MiB(memory), CoreShare(0), 1, places, group=group)


VOLCANO: Final = volcano.configured(
    VolcanoConfig(
        memory_percentage="volcano.sh/vgpu-memory-percentage",
        geometries=(
            Geometry(
                ("A30",),
                (
                    _cut("group1", "1g.6gb", 6_144, 4),
                    _cut("group2", "2g.12gb", 12_288, 2),
                    _cut("group3", "4g.24gb", 24_576, 1),
                ),
            ),
        ),
    )
)
"""Volcano's vendor as an operator configures it: with the percentage, and with MIG geometries."""

SPECS: Final = tuple(VOLCANO if spec.name == VOLCANO.name else spec for spec in BUILTIN)
"""The built-in vendors, so configured."""


def _published(node: str) -> object:
    """Three cards as Koordinator's Device objects say them, two of them on one NUMA node."""
    resources = {"koordinator.sh/gpu-core": "100", "koordinator.sh/gpu-memory": "24564Mi"}
    devices = [
        {
            "type": "gpu",
            "id": f"{node}-a10-{at}",
            "minor": at,
            "health": True,
            "resources": {**resources, "koordinator.sh/gpu-memory-ratio": "100"},
            "topology": {"socketID": -1, "nodeID": at // 2, "pcieID": "pci0000:00"},
        }
        for at in range(3)
    ]
    return {"metadata": {"name": node}, "spec": {"devices": devices}}


def _koordinators(*amounts: int | str) -> Limits:
    """The number of cards, cores, memory percentage and memory that a pod asks for in Koordinator's words."""
    names = ("gpu.shared", "gpu-core", "gpu-memory-ratio", "gpu-memory")
    return {f"koordinator.sh/{name}": amount for name, amount in zip(names, amounts, strict=False) if amount}


_HINTED: Final = {"scheduling.koordinator.sh/device-allocate-hint": '{"gpu":{"requiredTopologyScope":"NUMANode"}}'}

MACHINES: Final = (
    Machine(
        name="koordinator",
        vendor="Koordinator",
        says=_counts(
            {
                "koordinator.sh/gpu": 300,
                "koordinator.sh/gpu-core": 300,
                "koordinator.sh/gpu-memory": 3 * 24_564 << 20,
                "koordinator.sh/gpu-memory-ratio": 300,
                "koordinator.sh/gpu.shared": 300,
            }
        ),
        published=_published,
        asks=(
            _koordinators(1, 30, 0, "3000Mi"),
            _koordinators(1, 50, 50),
            _koordinators(2, 40, 0, "16Gi"),
            _koordinators(1, 0, 20),
            {"koordinator.sh/gpu": 100},
            _koordinators(1, 0, 0, "1Gi"),
        ),
        words=({}, _HINTED),
        summed=True,
    ),
    Machine(
        name="nvidia",
        vendor="NVIDIA",
        says=_linked_gpus,
        asks=(
            {_NVIDIA[0]: 1, _NVIDIA[1]: 3_000, _NVIDIA[2]: 30},
            {_NVIDIA[0]: 1, "nvidia.com/gpumem-percentage": 50},
            {_NVIDIA[1]: 9_000},
            {_NVIDIA[0]: 2, _NVIDIA[1]: 20_000},
            {_NVIDIA[0]: 3, _NVIDIA[1]: 1_000, _NVIDIA[2]: 10},
            {_NVIDIA[0]: 1},
        ),
        words=({}, *_POLICIES, {"nvidia.com/numa-bind": "true"}),
    ),
    Machine(
        name="nvidia-mig",
        vendor="NVIDIA",
        says=_in_json(
            "hami.io/node-nvidia-register",
            2,
            memory=81_559,
            slots=7,
            model="NVIDIA H100",
            mode="mig",
            profiles=H100_PROFILES,
        ),
        asks=(
            {_NVIDIA[0]: 1, _NVIDIA[1]: 9_000},
            {_NVIDIA[0]: 1, _NVIDIA[1]: 20_000},
            {_NVIDIA[0]: 3, _NVIDIA[1]: 9_000},
            {_NVIDIA[0]: 1, _NVIDIA[1]: 40_000},
            {_NVIDIA[0]: 1, "nvidia.com/gpumem-percentage": 20},
        ),
        rounds=True,
    ),
    Machine(
        name="cambricon",
        vendor="MLU",
        says=_counts({"cambricon.com/mlu.smlu.vcore": 400, "cambricon.com/mlu.smlu.vmemory": 768}),
        asks=(
            {"cambricon.com/vmlu": 1, "cambricon.com/mlu.smlu.vmemory": 20, "cambricon.com/mlu.smlu.vcore": 15},
            {"cambricon.com/vmlu": 2, "cambricon.com/mlu.smlu.vmemory": 50, "cambricon.com/mlu.smlu.vcore": 40},
            {"cambricon.com/vmlu": 1},
        ),
    ),
    Machine(
        name="hygon",
        vendor="DCU",
        says=_in_text("hami.io/node-dcu-register", 4, memory=16_384, slots=4, model="DCU-Z100"),
        asks=(
            {"hygon.com/dcunum": 1, "hygon.com/dcumem": 2_000, "hygon.com/dcucores": 30},
            {"hygon.com/dcunum": 2, "hygon.com/dcumem": 4_000, "hygon.com/dcucores": 50},
            {"hygon.com/dcunum": 1},
        ),
    ),
    Machine(
        name="enflame",
        vendor="GCU",
        says=_counts({"enflame.com/gcu": 4}),
        asks=({"enflame.com/gcu": 1}, {"enflame.com/gcu": 2}),
    ),
    Machine(
        name="enflame-drs",
        vendor="Enflame",
        says=_slices,
        asks=(
            {"enflame.com/drs-gcu": 1},
            {"enflame.com/gcu-memory": 10, "enflame.com/gcu-core": 30},
            {"enflame.com/drs-gcu": 3},
            {"enflame.com/drs-gcu": 6},
        ),
        rounds=True,
    ),
    Machine(
        name="mthreads",
        vendor="Mthreads",
        says=_counts({"mthreads.com/sgpu-core": 48, "mthreads.com/sgpu-memory": 288}),
        asks=(
            {"mthreads.com/vgpu": 1, "mthreads.com/sgpu-memory": 8, "mthreads.com/sgpu-core": 2},
            {"mthreads.com/vgpu": 1, "mthreads.com/sgpu-memory": 64, "mthreads.com/sgpu-core": 8},
            {"mthreads.com/vgpu": 1},
            {"mthreads.com/vgpu": 2},
        ),
    ),
    Machine(
        name="metax",
        vendor="Metax-GPU",
        says=_counts({"metax-tech.com/gpu": 4}),
        asks=({"metax-tech.com/gpu": 1}, {"metax-tech.com/gpu": 3}),
    ),
    Machine(
        name="metax-sgpu",
        vendor="Metax-SGPU",
        says=_metalink,
        asks=(
            {"metax-tech.com/sgpu": 1, "metax-tech.com/vmemory": 4, "metax-tech.com/vcore": 20},
            {"metax-tech.com/sgpu": 1, "metax-tech.com/vmemory": "10Gi"},
            {"metax-tech.com/sgpu": 2, "metax-tech.com/vcore": 40, "metax-tech.com/vmemory": 8},
            {"metax-tech.com/sgpu": 1},
        ),
        words=({}, *({metax.QOS_KEY: quality} for quality in metax.QUALITIES)),
    ),
    Machine(
        name="kunlun",
        vendor="kunlun",
        says=_counts({"kunlunxin.com/xpu": 8}),
        asks=({"kunlunxin.com/xpu": 1}, {"kunlunxin.com/xpu": 2}, {"kunlunxin.com/xpu": 4}),
    ),
    Machine(
        name="kunlun-sliced",
        vendor="XPU",
        says=_in_json("hami.io/node-register-xpu", 8, memory=98_304, slots=4, model="XPU"),
        asks=(
            {"kunlunxin.com/vxpu": 1, "kunlunxin.com/vxpu-memory": 24_576},
            {"kunlunxin.com/vxpu": 2, "kunlunxin.com/vxpu-memory": 49_152},
            {"kunlunxin.com/vxpu": 4, "kunlunxin.com/vxpu-memory": 24_576},
            {"kunlunxin.com/vxpu": 1},
        ),
    ),
    Machine(
        name="trainium",
        vendor="AWSNeuron",
        says=_counts({"aws.amazon.com/neuron": 16, "aws.amazon.com/neuroncore": 32}, "trn1.32xlarge"),
        asks=(
            {"aws.amazon.com/neuroncore": 1},
            {"aws.amazon.com/neuroncore": 2},
            {"aws.amazon.com/neuron": 1},
            {"aws.amazon.com/neuron": 4},
            {"aws.amazon.com/neuroncore": 8},
        ),
    ),
    Machine(
        name="inferentia",
        vendor="AWSNeuron",
        says=_counts({"aws.amazon.com/neuron": 6, "aws.amazon.com/neuroncore": 24}, "inf2.24xlarge"),
        asks=(
            {"aws.amazon.com/neuroncore": 1},
            {"aws.amazon.com/neuron": 1},
            {"aws.amazon.com/neuron": 3},
            {"aws.amazon.com/neuroncore": 4},
        ),
    ),
    Machine(
        name="amd",
        vendor="AMD",
        says=_in_json("hami.io/node-amd-register", 4, {"amd.com/gpu": 4}, memory=196_608, cores=304, model="MI300X"),
        asks=(
            {"amd.com/gpu": 1, "amd.com/gpumem": 20_000, "amd.com/gpucores": 10},
            {"amd.com/gpu": 2, "amd.com/gpumem": 50_000, "amd.com/gpucores": 33},
            {"amd.com/gpu": 1},
        ),
    ),
    Machine(
        name="vastai",
        vendor="Vastai",
        says=_in_json("hami.io/node-va-register", 4, memory=32_768, slots=1, model="VA"),
        asks=({"vastaitech.com/va": 1}, {"vastaitech.com/va": 2}),
        words=({}, _POLICIES[1]),
    ),
    Machine(
        name="vastai-dies",
        vendor="Vastai",
        says=_in_json(
            "hami.io/node-va-register",
            8,
            memory=16_384,
            slots=2,
            model="VA",
            custom=lambda at: {"DeviceStrategy": "die", "AIC": f"aic-{at // 4}"},
        ),
        asks=({"vastaitech.com/va": 1}, {"vastaitech.com/va": 3}),
        words=({}, _POLICIES[1]),
    ),
    Machine(
        name="biren",
        vendor="Biren",
        says=_in_json("hami.io/node-biren-register", 4, memory=65_536, slots=2, model="BR104"),
        asks=({"birentech.com/gpu": 1}, {"birentech.com/gpu": 2}),
    ),
    *map(_npus, ascend.CHIPS),
    Machine(
        name="ascend-shared",
        vendor="Ascend910B3",
        says=_shared_npus,
        asks=(
            {"huawei.com/Ascend910B3": 1, "huawei.com/Ascend910B3-memory": 5_000, "huawei.com/Ascend910B3-core": 20},
            {"huawei.com/Ascend910B3": 2, "huawei.com/Ascend910B3-memory": 30_000},
        ),
        words=({ascend.POD_MODE_KEY: ascend.SOFT},),
    ),
    *map(_iluvatar, iluvatar.MODELS),
    Machine(
        name="volcano",
        vendor="Volcano-vGPU",
        says=_volcano_gpus,
        asks=(
            {"volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-memory": 3_000, "volcano.sh/vgpu-cores": 20},
            {"volcano.sh/vgpu-memory": 10_000},
            {"volcano.sh/vgpu-number": 2, "volcano.sh/vgpu-memory": 8_000},
            {"volcano.sh/vgpu-number": 1},
        ),
        words=(
            {},
            {"volcano.sh/vgpu-podgroup-policy": "spread", "scheduling.k8s.io/group-name": "ring"},
        ),
    ),
    Machine(
        name="volcano-mig",
        vendor="Volcano-vGPU",
        says=_volcano_mig,
        asks=(
            {"volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-memory": 3_000},
            {"volcano.sh/vgpu-number": 2, "volcano.sh/vgpu-memory": 10_000},
            {"volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-memory-percentage": 20},
        ),
        rounds=True,
    ),
)
"""At least one machine of every vendor that is built in."""


def machines_of(spec: VendorSpec) -> tuple[Machine, ...]:
    """The machines of a vendor."""
    return tuple(machine for machine in MACHINES if machine.vendor == spec.name) or (plain(spec),)


def plain(spec: VendorSpec) -> Machine:
    """Eight ordinary cards in a JSON register."""
    names = spec.resources
    return Machine(
        name=str(spec.name).lower(),
        vendor=spec.name,
        says=_in_json(spec.keys.register, 8, memory=16_384, model=str(spec.name)),
        asks=(
            {names.count: 1, names.memory: 1_000, names.cores: 10},
            {names.count: 2, names.memory: 8_000, names.cores: 50},
            {names.count: 1},
        ),
    )
