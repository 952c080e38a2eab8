"""The table of inventory formulas, row by row, on a node of each vendor."""

from typing import Any

from hami_plugins.model.devices import Device
from hami_plugins.model.inventory import DeviceInventory
from hami_plugins.model.units import CoreShare, DeviceId, MiB, VendorName
from hami_plugins.vendors import ascend, builtin
from hami_plugins.wire import drs, node_devices
from hami_plugins.wire import metax as metax_wire
from tests import builders
from tests.golden import cases

REGISTRY = builtin()
NODE = "n1"

LISTED = (
    node_devices.RegisteredDevice(
        id=DeviceId("card-a"), slots=7, memory=MiB(4096), cores=CoreShare(30), model="m", numa=1, healthy=True
    ),
    node_devices.RegisteredDevice(
        id=DeviceId("card-b"), slots=3, memory=MiB(8192), cores=CoreShare(40), model="m", healthy=True, index=1
    ),
)
SHARED = tuple(
    metax_wire.SharedCard(
        id=each.id, slots=each.slots, cores=each.cores, memory=each.memory, numa=each.numa, healthy=True
    )
    for each in LISTED
)
SLICED = drs.DrsNode((drs.DrsCard(0, "0", 6), drs.DrsCard(1, "1", 4)), {"1g.6gb": "0", "6g.40gb": "1"})

CAPACITY: dict[str, dict[str, int]] = {
    "MLU": {"cambricon.com/mlu.smlu.vcore": 250, "cambricon.com/mlu.smlu.vmemory": 320},
    "Metax-GPU": {"metax-tech.com/gpu": 4},
    "Mthreads": {"mthreads.com/sgpu-core": 40, "mthreads.com/sgpu-memory": 240},
    "kunlun": {"kunlunxin.com/xpu": 8},
    "GCU": {"enflame.com/gcu": 2},
    "AWSNeuron": {"aws.amazon.com/neuron": 4, "aws.amazon.com/neuroncore": 32},
}

NUMBERS: dict[str, dict[str, list[int]]] = {
    "MLU": {"cards": [3], "devmem": [320 * 256 * 100 // 250] * 3},
    "Mthreads": {"cards": [3], "devmem": [240 * 512 * 16 // 40] * 3},
    "kunlun": {"numa": [0] * 4 + [1] * 4},
    "Enflame": {"count": [6, 4], "devmem": [40 * 1024] * 2},
    "AWSNeuron": {"count": [8] * 4, "devcore": [8] * 4},
    "Vastai": {"devcore": [100, 100]},
    "Biren": {"devcore": [100, 100]},
}
"""What the table's formulas give on these nodes. A Neuron device's cores are a number here, a mask only on the wire."""

BACKENDS = {
    "DCU / Iluvatar": ("DCU", "MR-V100", "MR-V50", "BI-V150", "BI-V100"),
    "Ascend": tuple(chip.word for chip in ascend.CHIPS),
    "Vastai / Biren": ("Vastai", "Biren"),
}

WRITTEN_SO = {("Ascend", "numa")}
"""Cells that say what the node agent writes; whatever it writes is read."""

MEMBERS = {"count": "slots", "devmem": "memory", "devcore": "cores", "numa": "numa"}


@cases.each("hami-vendors/inventory-table.yaml")
def test_inventory_follows_its_row(case: cases.Case) -> None:
    backend = case.given["backend"]
    for name in BACKENDS.get(backend, (backend,)):
        found = _found(name)
        numbers = NUMBERS.get(name, {})
        cards = numbers.get("cards", [_count(name)])[0]
        assert len(found.devices) == cards
        assert list(found.ids) == [_id(case.expect["id"], at) for at in range(cards)]
        for member, attribute in MEMBERS.items():
            ours = [getattr(device, attribute) for device in found.devices]
            text = "as listed" if (backend, member) in WRITTEN_SO else case.expect[member]
            assert ours == numbers.get(member, _column(text, attribute, cards)), member


def _count(name: str) -> int:
    capacity = CAPACITY.get(name)
    return len(LISTED) if capacity is None else next(iter(capacity.values()))


def _id(text: str, at: int) -> str:
    if text.startswith("<node>"):
        return text.replace("<node>", NODE).replace("<i>", str(at)).replace("<index>", str(at))
    return str(LISTED[at].id)


def _column(text: str, attribute: str, cards: int) -> list[int]:
    """A number of the table for every card, or else what the list says."""
    return [int(text)] * cards if text.isdigit() else [getattr(each, attribute) for each in LISTED]


def _found(name: str) -> DeviceInventory:
    spec = REGISTRY[VendorName(name)]
    text = {
        "Metax-SGPU": metax_wire.encode_cards(SHARED),
        "Enflame": drs.encode_node(SLICED),
        "DCU": node_devices.encode_csv(LISTED),
    }.get(name, node_devices.encode_csv(LISTED) if "-V1" in name or "-V5" in name else node_devices.encode_json(LISTED))
    capacity: dict[str, Any] = CAPACITY.get(name) or {spec.resources.count: 100}
    annotations = {spec.keys.register: text} if spec.keys.register else {}
    return spec.inventory(spec, builders.a_node_object(NODE, annotations=annotations, capacity=capacity))


def test_soft_ascend_nodes_have_percent_for_cores() -> None:
    spec = REGISTRY[VendorName("Ascend910B3")]
    annotations = {spec.keys.register: node_devices.encode_json(LISTED), ascend.NODE_MODE_KEY: "true"}
    devices: tuple[Device, ...] = spec.inventory(spec, builders.a_node_object(annotations=annotations)).devices
    assert [device.cores for device in devices] == [100, 100]
