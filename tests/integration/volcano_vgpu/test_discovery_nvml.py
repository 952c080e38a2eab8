"""Cards as the driver reports them: every field separately, errors that count, and recovery."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hami_plugins.model.units import DeviceId
from tests.integration.volcano_vgpu.fake_nvml import LOST, NOT_FOUND, NOT_LOADED, NOT_SUPPORTED, FakeCard, FakeNvml
from tests.waiting import PATIENCE
from volcano_vgpu.core.health import XidFilter
from volcano_vgpu.core.model import DeviceLink, DeviceMeasurement, MigInstance
from volcano_vgpu.discovery.nvml import NvmlDiscovery
from volcano_vgpu.discovery.port import Discovery, DiscoveryError

A, B, C = (DeviceId(f"GPU-{name}") for name in "abc")


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def nvml() -> FakeNvml:
    return FakeNvml(
        FakeCard(A, 1, bus="00000000:3B:00.0"),
        FakeCard(B, 0, bus="00000000:AF:00.0"),
        FakeCard(C, 2, bus="00000000:D8:00.0"),
    )


@pytest.fixture
def found(nvml: FakeNvml, clock: Clock, tmp_path: Path) -> Iterator[NvmlDiscovery]:
    discovery = NvmlDiscovery(counts=XidFilter(), recovery=300.0, library=nvml, buses=tmp_path, clock=clock)
    discovery.open()
    yield discovery
    discovery.close()
    assert (nvml.open, nvml.sets) == (0, 0)


def problems(found: Discovery) -> dict[DeviceId, tuple[str, ...]]:
    return {card.uuid: card.problems for card in found.inventory().cards if card.problems}


def test_cards_stand_in_the_order_of_their_minor_numbers(found: NvmlDiscovery) -> None:
    inventory = found.inventory()
    assert inventory.driver == "550.54.15"
    assert [(card.uuid, card.minor, card.index) for card in inventory.cards] == [(B, 0, 1), (A, 1, 0), (C, 2, 2)]
    assert {(card.model, card.memory) for card in inventory.cards} == {("NVIDIA A100-SXM4-40GB", 40960)}
    assert all(card.healthy and not card.unreadable for card in inventory.cards)


def test_the_kernel_tells_the_numa_node(found: NvmlDiscovery, tmp_path: Path) -> None:
    for bus, node in (("0000:3b:00.0", "1\n"), ("0000:af:00.0", "-1\n")):
        (tmp_path / bus).mkdir()
        (tmp_path / bus / "numa_node").write_text(node, encoding="ascii")
    assert {card.uuid: card.numa for card in found.inventory().cards} == {A: 1, B: None, C: None}


@pytest.mark.parametrize(
    ("function", "field"),
    [
        ("nvmlDeviceGetPciInfo", "PCI address"),
        ("nvmlDeviceGetMinorNumber", "minor number"),
        ("nvmlDeviceGetName", "name"),
        ("nvmlDeviceGetMemoryInfo", "memory"),
        ("nvmlDeviceGetMigMode", "MIG mode"),
    ],
)
def test_a_field_that_cannot_be_read_is_named_and_hides_nothing(
    found: NvmlDiscovery, nvml: FakeNvml, function: str, field: str
) -> None:
    nvml.cards[0].broken[function] = 999
    cards = {card.uuid: card for card in found.inventory().cards}
    assert cards[A].unreadable == (field,)
    assert cards[A].healthy
    assert cards.keys() == {A, B, C}
    assert not cards[B].unreadable


def test_a_card_without_mig_needs_not_say_so(found: NvmlDiscovery, nvml: FakeNvml) -> None:
    nvml.cards[0].broken["nvmlDeviceGetMigMode"] = NOT_SUPPORTED
    assert not any(card.unreadable for card in found.inventory().cards)


def test_names_may_come_in_bytes(found: NvmlDiscovery, nvml: FakeNvml) -> None:
    nvml.cards[0].name = b"Tesla P4"
    assert found.inventory().card(A) is not None
    assert "Tesla P4" in {card.model for card in found.inventory().cards}


def test_mig_instances_are_found_with_their_profiles_and_places(found: NvmlDiscovery, nvml: FakeNvml) -> None:
    card = nvml.cards[0]
    card.mig = True
    card.instances = [
        None,
        FakeCard("MIG-1", name="NVIDIA A100-SXM4-40GB MIG 3g.20gb", memory=19968 * 2**20, place=(2, 4, 4)),
    ]
    cards = {card.uuid: card for card in found.inventory().cards}
    assert cards[A].mig
    assert cards[A].instances == (
        MigInstance(uuid=DeviceId("MIG-1"), profile="3g.20gb", memory=cards[A].instances[0].memory, start=4, size=4),
    )
    card.broken["nvmlDeviceGetMigDeviceHandleByIndex"] = 999
    assert found.inventory().cards[1].unreadable == ("MIG instances",)
    card.broken["nvmlDeviceGetMigDeviceHandleByIndex"] = NOT_FOUND
    assert found.inventory().cards[1].instances == ()


def test_nvlink_lanes_are_counted_and_other_cards_told_by_their_closeness(nvml: FakeNvml, found: NvmlDiscovery) -> None:
    nvml.cards[0].peers = [nvml.cards[1].bus, None, nvml.cards[1].bus, "00000000:FF:00.0"]
    cards = {card.uuid: card for card in found.inventory().cards}
    assert cards[A].links == (DeviceLink(peer=B, kind="nvlink", lanes=2), DeviceLink(peer=C, kind="pcie-system"))
    assert cards[C].links == (DeviceLink(peer=A, kind="pcie-system"), DeviceLink(peer=B, kind="pcie-system"))


def test_links_are_asked_for_only_once(nvml: FakeNvml, found: NvmlDiscovery) -> None:
    before = found.inventory()
    nvml.calls.clear()
    assert found.inventory() == before
    assert "nvmlDeviceGetTopologyCommonAncestor" not in nvml.calls


def test_links_that_cannot_be_read_are_none(nvml: FakeNvml, found: NvmlDiscovery) -> None:
    nvml.broken["nvmlDeviceGetTopologyCommonAncestor"] = NOT_SUPPORTED
    assert all(card.links == () for card in found.inventory().cards)


def test_a_card_that_was_never_read_is_passed_over_and_hides_no_other(nvml: FakeNvml, found: NvmlDiscovery) -> None:
    nvml.cards[0].broken["*"] = LOST
    inventory = found.inventory()
    assert [card.uuid for card in inventory.cards] == [B, C]
    assert "GPU is lost" in inventory.passed_over["index 0"]


@pytest.mark.parametrize("function", ["*", "nvmlDeviceGetMemoryInfo"])
def test_a_card_that_falls_off_the_bus_has_a_problem_and_comes_back(
    nvml: FakeNvml, found: NvmlDiscovery, function: str
) -> None:
    found.inventory()
    nvml.cards[0].broken[function] = LOST
    assert problems(found) == {A: ("lost: GPU is lost; reset the card or reboot the node",)}
    nvml.cards[0].broken.clear()
    assert problems(found) == {}


def test_an_error_that_counts_is_a_problem_of_its_card_alone(nvml: FakeNvml, found: NvmlDiscovery) -> None:
    nvml.happen(nvml.cards[0], 79)
    assert found.wait(PATIENCE)
    ((uuid, (problem,)),) = problems(found).items()
    assert uuid == A
    assert problem.startswith("XID 79: the card has fallen off the bus")


def test_an_error_that_nobody_knows_is_told_by_its_number(nvml: FakeNvml, found: NvmlDiscovery) -> None:
    nvml.happen(nvml.cards[0], 999)
    assert found.wait(PATIENCE)
    assert problems(found)[A][0].startswith("XID 999: look it up")


def test_errors_of_applications_and_other_events_do_not_count(
    nvml: FakeNvml, clock: Clock, found: NvmlDiscovery
) -> None:
    nvml.happen(nvml.cards[0], 31)
    nvml.happen(nvml.cards[0], 79, kind=1)
    nvml.happen(nvml.cards[1], 48)
    assert found.wait(PATIENCE)
    assert problems(found).keys() == {B}


def test_a_card_recovers_after_a_quiet_while_and_a_probe(nvml: FakeNvml, clock: Clock, found: NvmlDiscovery) -> None:
    nvml.happen(nvml.cards[0], 94)
    assert found.wait(PATIENCE)
    clock.now += 299.0
    assert problems(found).keys() == {A}
    clock.now += 1.0
    assert found.wait(PATIENCE)
    assert problems(found) == {}


@pytest.mark.parametrize(
    ("illness", "why"),
    [
        ({"remapped": (0, 1, 1, 0)}, "waits for a reset"),
        ({"remapped": (0, 1, 0, 1)}, "could not be remapped"),
        ({"broken": {"nvmlDeviceGetRemappedRows": 999}}, "does not answer"),
        ({"broken": {"nvmlDeviceGetMemoryInfo": 999}}, "does not answer"),
        ({"broken": {"nvmlDeviceGetMemoryInfo": LOST}}, "GPU is lost"),
    ],
)
def test_a_card_that_fails_its_probe_is_probed_again_later(
    nvml: FakeNvml, clock: Clock, found: NvmlDiscovery, illness: dict[str, Any], why: str
) -> None:
    card = nvml.cards[0]
    nvml.happen(card, 63)
    assert found.wait(PATIENCE)
    card.remapped, card.broken = illness.get("remapped", card.remapped), illness.get("broken", {})
    clock.now += 300.0
    assert found.wait(PATIENCE)
    assert why in problems(found)[A][-1]
    card.remapped, card.broken = (0, 0, 0, 0), {"nvmlDeviceGetRemappedRows": NOT_SUPPORTED}
    assert problems(found).keys() == {A}
    clock.now += 300.0
    assert problems(found) == {}


def test_a_lost_card_with_an_error_is_not_probed_in_a_tight_loop(
    nvml: FakeNvml, clock: Clock, found: NvmlDiscovery
) -> None:
    found.inventory()
    nvml.happen(nvml.cards[0], 79)
    assert found.wait(PATIENCE)
    nvml.cards[0].broken["*"] = LOST
    clock.now += 300.0
    assert found.wait(PATIENCE)
    assert problems(found).keys() == {A}
    assert not found.wait(0.0)


def test_an_error_of_a_card_that_cannot_be_named_makes_all_looked_at_and_none_suspected(
    nvml: FakeNvml, found: NvmlDiscovery
) -> None:
    nvml.happen(FakeCard("", broken={"*": 999}), 79)
    assert found.wait(PATIENCE)
    assert problems(found) == {}


def test_a_wait_that_fails_is_not_repeated_at_once(nvml: FakeNvml, tmp_path: Path) -> None:
    with_time = NvmlDiscovery(counts=XidFilter(), recovery=300.0, library=nvml, buses=tmp_path)
    with_time.open()
    nvml.broken["nvmlEventSetWait_v2"] = 999
    assert with_time.wait(0.01)
    nvml.broken.clear()
    assert not with_time.wait(0.01)
    with_time.close()
    assert not with_time.wait(PATIENCE)


@pytest.mark.parametrize("function", ["nvmlEventSetCreate", "nvmlDeviceGetSupportedEventTypes"])
def test_cards_that_send_no_events_are_found_all_the_same(nvml: FakeNvml, tmp_path: Path, function: str) -> None:
    nvml.broken[function] = NOT_SUPPORTED
    discovery = NvmlDiscovery(counts=XidFilter(), recovery=300.0, library=nvml, buses=tmp_path)
    discovery.open()
    assert nvml.registered == 0
    assert len(discovery.inventory().cards) == 3
    assert not discovery.wait(0.01)
    discovery.close()


def test_a_closed_discovery_lets_its_waiter_go(nvml: FakeNvml, tmp_path: Path) -> None:
    discovery = NvmlDiscovery(counts=XidFilter(), recovery=300.0, library=nvml, buses=tmp_path)
    discovery.open()
    waiter = threading.Thread(target=discovery.wait, args=(60.0,))
    waiter.start()
    discovery.close()
    waiter.join(PATIENCE)
    assert not waiter.is_alive()
    discovery.close()
    assert (nvml.open, nvml.sets) == (0, 0)


def test_a_driver_that_was_loaded_anew_is_asked_anew(nvml: FakeNvml, found: NvmlDiscovery) -> None:
    found.inventory()

    class Once(dict[str, int]):
        def __getitem__(self, name: str) -> int:
            return self.pop(name)

    nvml.broken = Once(nvmlDeviceGetCount=NOT_LOADED)
    assert len(found.inventory().cards) == 3
    nvml.broken = {"nvmlSystemGetDriverVersion": 999}
    assert found.inventory().driver == ""


def test_a_driver_that_is_gone_is_told_with_what_to_think_of_it(nvml: FakeNvml, found: NvmlDiscovery) -> None:
    nvml.broken["nvmlDeviceGetCount"] = NOT_LOADED
    with pytest.raises(DiscoveryError, match="does not answer: Driver Not Loaded"):
        found.inventory()
    nvml.broken.clear()


def test_without_a_driver_it_is_said_what_to_do(nvml: FakeNvml) -> None:
    nvml.broken["nvmlInit"] = NOT_LOADED
    discovery = NvmlDiscovery(counts=XidFilter(), recovery=300.0, library=nvml)
    with pytest.raises(DiscoveryError, match="Driver Not Loaded; install or load it"):
        discovery.open()
    discovery.close()


def test_without_the_library_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    discovery = NvmlDiscovery(counts=XidFilter(), recovery=300.0)
    with pytest.raises(DiscoveryError, match=r"hami-plugins\[nvidia\]"):
        discovery.open()
    discovery.close()


def test_what_the_driver_measures_is_told_in_base_units(nvml: FakeNvml, found: NvmlDiscovery) -> None:
    found.inventory()
    assert found.use(A) == DeviceMeasurement(
        memory_used=10240 * 2**20, utilization=0.5, temperature=61.0, power_watts=250.5
    )
    nvml.cards[0].broken = {"nvmlDeviceGetUtilizationRates": NOT_SUPPORTED, "nvmlDeviceGetPowerUsage": NOT_SUPPORTED}
    assert found.use(A) == DeviceMeasurement(memory_used=10240 * 2**20, temperature=61.0)
    assert found.use(DeviceId("GPU-x")) == DeviceMeasurement()
