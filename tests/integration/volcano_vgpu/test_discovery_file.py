"""Cards out of a file."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from hami_plugins.model.units import DeviceId
from tests.waiting import PATIENCE, wait_for
from volcano_vgpu.core.model import DeviceLink, DeviceMeasurement
from volcano_vgpu.discovery.file import FileDiscovery, parse
from volcano_vgpu.discovery.port import DiscoveryError

FULL = """
driver: "550.1"
cards:
- uuid: GPU-b
  minor: 1
  model: NVIDIA H100
  memory: 80Gi
  numa: 1
  pciBus: "00000000:3B:00.0"
  links: [{peer: GPU-a, kind: nvlink, lanes: 12}]
  problems: ["XID 79: fallen off the bus"]
  unreadable: [name]
  use: {memoryUsed: 10Gi, utilization: 0.5, temperature: 60, powerWatts: 250.5}
- {uuid: GPU-a, minor: 0, memory: 40960, mig: [{uuid: MIG-1, profile: 1g.5gb, memory: 4864, start: 0, size: 1}]}
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "cards.yaml"


@pytest.fixture
def found(path: Path) -> Iterator[FileDiscovery]:
    path.write_text(FULL, encoding="utf-8")
    discovery = FileDiscovery(path)
    discovery.open()
    yield discovery
    discovery.close()


def test_a_file_says_all_that_a_driver_does(found: FileDiscovery) -> None:
    inventory = found.inventory()
    assert inventory.driver == "550.1"
    first, second = inventory.cards
    assert (first.uuid, first.memory, first.mig, first.instances[0].profile) == ("GPU-a", 40960, True, "1g.5gb")
    assert (second.model, second.memory, second.numa, second.pci_bus) == ("NVIDIA H100", 81920, 1, "00000000:3B:00.0")
    assert second.links == (DeviceLink(peer=DeviceId("GPU-a"), kind="nvlink", lanes=12),)
    assert (second.problems, second.unreadable) == (("XID 79: fallen off the bus",), ("name",))
    assert found.use(second.uuid) == DeviceMeasurement(
        memory_used=10 * 2**30, utilization=0.5, temperature=60.0, power_watts=250.5
    )
    assert found.use(DeviceId("GPU-x")) == DeviceMeasurement()


def test_cards_alike_need_be_described_only_once() -> None:
    text = "{count: 8, model: Tesla T4, memory: 15360, seed: n1}"
    cards = parse(text, "f").inventory.cards
    assert len({card.uuid for card in cards}) == 8
    assert {(card.model, card.memory, card.healthy) for card in cards} == {("Tesla T4", 15360, True)}
    assert [card.index for card in cards] == list(range(8))
    assert parse(text, "f").inventory.cards == cards
    other = parse(text.replace("n1", "n2"), "f").inventory.cards
    assert {card.uuid for card in cards}.isdisjoint(card.uuid for card in other)


def test_what_cards_have_in_common_stands_above_them() -> None:
    cards = parse("{memory: 10, model: M, cards: [{uuid: GPU-a}, {uuid: GPU-b, memory: 20}]}", "f").inventory.cards
    assert [(card.model, card.memory) for card in cards] == [("M", 10), ("M", 20)]


def test_an_empty_file_is_a_machine_without_cards() -> None:
    assert parse("", "f").inventory.cards == ()


@pytest.mark.parametrize(
    ("card", "name", "why"),
    [
        ("{uuid: GPU-a}", "GPU-a", "memory: Field required"),
        ("{uuid: GPU-a, memory: -1}", "GPU-a", "greater than or equal to 0"),
        ("{uuid: GPU-a, memory: much}", "GPU-a", "not a quantity"),
        ("{uuid: GPU-a, memory: 1, use: {memoryUsed: []}}", "GPU-a", "not an amount"),
        ("{uuid: GPU-a, memory: 1, colour: red}", "GPU-a", "colour"),
        ("{memory: x}", "card 0", "memory"),
        ("3", "card 0", "cards[0]"),
    ],
)
def test_a_card_that_cannot_be_read_is_passed_over_and_hides_no_other(card: str, name: str, why: str) -> None:
    inventory = parse(f"cards: [{card}, {{uuid: GPU-z, memory: 5}}]", "f").inventory
    assert [each.uuid for each in inventory.cards] == ["GPU-z"]
    assert why in inventory.passed_over[name]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a: [", "not usable YAML"),
        ("[]", "(top)"),
        ("count: 4", "count without memory"),
        ("{count: 65, memory: 1}", "less than or equal to 64"),
        ("devices: []", "devices: Extra inputs"),
    ],
)
def test_a_file_that_is_none_is_refused(text: str, why: str) -> None:
    with pytest.raises(DiscoveryError) as error:
        parse(text, "f")
    assert "cards file f: " in str(error.value)
    assert why in str(error.value)


def test_a_missing_file_is_told_with_what_to_do(path: Path) -> None:
    discovery = FileDiscovery(path)
    with pytest.raises(DiscoveryError, match="create it, or leave cardsFile unset"):
        discovery.open()
    with pytest.raises(DiscoveryError):
        discovery.inventory()
    assert discovery.use(DeviceId("GPU-a")) == DeviceMeasurement()
    path.write_text(FULL, encoding="utf-8")
    discovery.open()
    assert len(discovery.inventory().cards) == 2


def test_a_bad_file_leaves_the_last_good_one_in_force(found: FileDiscovery, path: Path) -> None:
    before = found.inventory()
    path.write_bytes(b"\xff\xfe")
    assert found.inventory() == before
    assert "codec" in found.problem
    path.write_text("cards: [", encoding="utf-8")
    assert found.inventory() == before
    assert "not usable YAML" in found.problem
    path.unlink()
    assert found.inventory() == before
    assert "No such file" in found.problem
    path.write_text("{count: 1, memory: 1}", encoding="utf-8")
    assert len(found.inventory().cards) == 1
    assert found.problem == ""


def test_a_change_of_the_file_ends_the_wait(found: FileDiscovery, path: Path) -> None:
    assert not found.wait(0.0)
    other = path.with_name("other.yaml")
    other.write_text(FULL.replace("GPU-b", "GPU-c"), encoding="utf-8")
    other.rename(path)
    assert found.wait(PATIENCE)
    assert found.inventory().card(DeviceId("GPU-c")) is not None
    assert not found.wait(0.0)


def test_a_closed_discovery_lets_its_waiter_go(path: Path) -> None:
    path.write_text(FULL, encoding="utf-8")
    discovery = FileDiscovery(path)
    discovery.open()
    ended = threading.Event()

    def wait() -> None:
        assert not discovery.wait(60.0)
        ended.set()

    waiter = threading.Thread(target=wait)
    waiter.start()
    discovery.close()
    wait_for(ended.is_set)
    waiter.join()
