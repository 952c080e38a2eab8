"""What a pod holds of each device: init containers one after another, the others together."""

from typing import Any

from hami_plugins.engine.usage import HeldDevice, held_by
from hami_plugins.model.pods import ContainerAllocation
from hami_plugins.model.requests import ContainerKind
from hami_plugins.model.units import DeviceId
from tests import builders
from tests.golden import cases

FILL_IN: dict[str, list[dict[str, Any]]] = {
    "collapse-i5": [{"mem": 100, "cores": 20}, {"mem": 200, "cores": 20}, {"mem": 300, "cores": 30}],
    "collapse-i6": [{"mem": 100}, {"mem": 200}, {"mem": 300}],
    "collapse-i8": [{"mem": 10}, {"mem": 20}, {"mem": 30}],
    "collapse-i9": [{"mem": 999}, {"mem": 40}],
}
"""Amounts that the text leaves open: ours add up to what it states."""


@cases.each("hami-core/collapse.yaml")
def test_pod_holds_what_its_vector_says(case: cases.Case) -> None:
    given = case.given
    init_finished = given["variant"] == "app-only"
    if not given["vendors"]:
        assert held_by(()) == {}
        assert case.expect["vendors"] is None
    for vendor, containers in (given["vendors"] or {}).items():
        allocations = _allocations(case.id, vendor, containers, given["init_count"])
        found = held_by(allocations, init_finished=init_finished)
        wanted = case.expect["vendors"][vendor]
        assert sorted(found) == [each["uuid"] for each in wanted]
        for each in wanted:
            held = found[DeviceId(each["uuid"])]
            assert all(_members(held)[name] == each[name] for name in ("mem", "cores", "slots") if name in each)
            assert not case.expect.get("init_ignored") or held.memory == FILL_IN[case.id][-1]["mem"]


def _allocations(
    case: str, vendor: str, containers: list[list[dict[str, Any]]], inits: int
) -> tuple[ContainerAllocation, ...]:
    amounts = iter(FILL_IN.get(case, ()))
    filled = [[{**each, **next(amounts, {})} for each in container] for container in containers]
    return tuple(
        ContainerAllocation(
            ContainerKind.INIT if at < inits else ContainerKind.APP,
            tuple(
                builders.a_share(each["uuid"], each.get("mem", 0), each.get("cores", 0), vendor=vendor)
                for each in container
            ),
        )
        for at, container in enumerate(filled)
    )


def _members(held: HeldDevice) -> dict[str, int]:
    return {"mem": held.memory, "cores": held.cores, "slots": held.slots}
