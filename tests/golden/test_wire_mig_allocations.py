"""HAMi's MIG allocations against the vectors."""

from typing import Any

import pytest

from hami_plugins.errors import WireError
from hami_plugins.model.devices import SlicePlacement
from hami_plugins.model.units import DeviceId
from hami_plugins.wire import mig_allocations
from hami_plugins.wire.mig_allocations import MigAllocation, MigRuntime
from tests.golden import cases

DEVIATIONS = {
    "error text": "the vectors' error texts are HAMi's; ours name the entry and the member",
}


def allocation(raw: dict[str, Any]) -> MigAllocation:
    ids = (raw["migUUID"], raw["gpuInstanceID"], raw["computeInstanceID"])
    return MigAllocation(
        container=raw["containerIndex"],
        device=raw["deviceIndex"],
        gpu=DeviceId(raw["gpuUUID"]),
        profile=raw["profile"],
        placement=SlicePlacement(**raw["placement"]),
        runtime=None if ids[0] is None else MigRuntime(*ids),
    )


@cases.each("hami-core/mig-allocations.yaml")
def test_mig_allocations_are_read_as_their_vector_says(case: cases.Case) -> None:
    if case.refused:
        with pytest.raises(WireError):
            mig_allocations.decode(case.id, case.given["text"])
        return
    read = mig_allocations.decode(case.id, case.given["text"])
    assert read == tuple(allocation(raw) for raw in case.expect["allocations"])
    assert mig_allocations.encode(read) == case.given["text"]
    for piece in case.expect.get("encoded_contains", []):
        assert piece in mig_allocations.encode(read)
