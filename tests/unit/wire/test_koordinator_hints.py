"""Koordinator's hints about devices."""

from __future__ import annotations

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
