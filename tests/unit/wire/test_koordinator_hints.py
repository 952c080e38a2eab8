"""Koordinator's hints about devices."""

from __future__ import annotations

import json

import pytest

from hami_plugins.errors import WireError
from hami_plugins.model.pods import Requirement
from hami_plugins.wire import koordinator_hints as wire


def test_every_member_of_a_hint_is_read() -> None:
    text = (
        '{"gpu":{"selector":{"matchLabels":{"zone":"a"},"matchExpressions":[{"key":"gpu-uuid","operator":"In",'
        '"values":["x","y"]}]},"requiredTopologyScope":"PCIe","exclusivePolicy":"PCIeLevel"},'
        '"rdma":{"vfSelector":{"matchExpressions":[{"key":"fast","operator":"Exists"}]},'
        '"allocateStrategy":"ApplyForAll"}}'
    )
    assert wire.decode(text) == {
        "gpu": wire.Hint(
            selector=(Requirement("zone", "In", ("a",)), Requirement("gpu-uuid", "In", ("x", "y"))),
            scope="PCIe",
            exclusive="PCIeLevel",
        ),
        "rdma": wire.Hint(functions=(Requirement("fast", "Exists"),), strategy="ApplyForAll"),
    }


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("[]", wire.KEY),
        ("gpu", wire.KEY),
        ('{"gpu":[]}', ".gpu"),
        ('{"gpu":{"requiredTopologyScope":"Rack"}}', ".gpu.requiredTopologyScope"),
        ('{"gpu":{"allocateStrategy":"All"}}', ".gpu.allocateStrategy"),
        ('{"gpu":{"exclusivePolicy":"Rack"}}', ".gpu.exclusivePolicy"),
        ('{"gpu":{"selector":{"matchExpressions":[{"key":"a","operator":"Gt"}]}}}', "matchExpressions[0].operator"),
        ('{"gpu":{"selector":{"matchLabels":{"a":1}}}}', "matchLabels"),
    ],
)
def test_a_hint_that_means_nothing_names_the_member(text: str, place: str) -> None:
    with pytest.raises(WireError) as caught:
        wire.decode(text)
    assert place in caught.value.key


def test_partitions_are_kept_by_their_number_of_cards() -> None:
    found = wire.decode_partitions('{"2":[{"minors":[0,1]},{"minors":[2,3]}],"4":[]}')
    assert {size: [each.minors for each in parts] for size, parts in found.items()} == {2: [(0, 1), (2, 3)], 4: []}


@pytest.mark.parametrize("size", ["two", "-2", "", "\u00b2"])
def test_partitions_of_no_number_of_cards_are_refused(size: str) -> None:
    with pytest.raises(WireError, match="not a number of cards"):
        wire.decode_partitions(json.dumps({size: []}))
