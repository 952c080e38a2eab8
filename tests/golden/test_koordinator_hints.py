"""What pods want of devices beyond amounts, in Koordinator's words, against the vectors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from hami_plugins.errors import WireError
from hami_plugins.wire import koordinator_hints as wire
from hami_plugins.wire.koordinator_devices import PARTITIONS_KEY
from tests.golden.cases import Case, each

DECODERS: Mapping[str, Callable[[str], Any]] = {
    wire.KEY: wire.decode,
    wire.JOINT_KEY: wire.decode_joint,
    wire.PARTITION_KEY: wire.decode_partition,
    PARTITIONS_KEY: wire.decode_partitions,
}
INVALID = "{"
"""The invalid text that a vector does not give."""


@each("koordinator/hints-partitions.yaml")
def test_wishes_and_partitions_are_read_as_koordinator_reads_them(case: Case) -> None:
    decode, text = DECODERS[case.given["annotation"]], case.given["value"]
    if case.refused:
        with pytest.raises(WireError):
            decode(INVALID if text is None else text)
        return
    said = spelled(decode(text))
    assert {name: said[name] for name in case.expect} == case.expect


def spelled(found: Any) -> dict[str, Any]:
    """A value as the vectors spell it."""
    match found:
        case wire.Joint(types, scope):
            return {"deviceTypes": list(types), "requiredScope": scope}
        case wire.PartitionRequest(policy, bandwidth):
            return {"allocatePolicy": policy, "ringBusBandwidth": None if bandwidth is None else str(bandwidth)}
        case _ if all(isinstance(each, wire.Hint) for each in found.values()):
            return {"hint": {kind: {"requiredTopologyScope": hint.scope} for kind, hint in found.items()}}
        case _:
            return {
                "partitions": {
                    str(size): [
                        {
                            "minors": list(each.minors),
                            "gpuLinkType": each.link,
                            "ringBusBandwidth": str(each.bandwidth),
                            "allocationScore": each.score,
                        }
                        for each in partitions
                    ]
                    for size, partitions in found.items()
                }
            }


@each("koordinator/hint-fields.yaml")
def test_every_member_of_a_hint_has_its_values_and_no_others(case: Case) -> None:
    name, values = case.given["field"], case.expect["values"]
    assert case.expect["optional"]
    assert wire.decode('{"gpu":{}}')["gpu"] == wire.Hint()
    if values == "LabelSelector":
        assert wire.decode(f'{{"gpu":{{"{name}":{{"matchLabels":{{"a":"b"}}}}}}}}')["gpu"] != wire.Hint()
        return
    for value in values:
        assert wire.decode(f'{{"gpu":{{"{name}":"{value}"}}}}')["gpu"] != wire.Hint()
    with pytest.raises(WireError):
        wire.decode(f'{{"gpu":{{"{name}":"Other"}}}}')
