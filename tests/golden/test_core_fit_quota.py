"""What a pod counts against its namespace's quota while its containers are placed one after another."""

from typing import Any

from hami_plugins.engine.quota import within
from hami_plugins.engine.usage import held_by
from hami_plugins.model.pods import ContainerAllocation
from hami_plugins.model.requests import ContainerKind
from hami_plugins.model.units import MiB, VendorName
from hami_plugins.model.vendor import Headroom
from tests import builders
from tests.golden import cases


@cases.each("hami-core/fit-quota.yaml")
def test_request_fits_the_quota_as_its_vector_says(case: cases.Case) -> None:
    given = case.given
    containers = [*given["earlier_containers"], [*given["chosen_in_container"], given["request"]]]
    allocations = [_allocation(at, rows, given["init_containers"]) for at, rows in enumerate(containers)]
    memory = sum(held.memory for held in held_by(allocations).values())
    vendor = VendorName("NVIDIA")
    left = {vendor: Headroom(MiB(given["limit_mem"]), None)}
    assert within({vendor: (memory, 0)}, left) is case.expect["fits"]


def _allocation(at: int, rows: list[dict[str, Any]], inits: int) -> ContainerAllocation:
    kind = ContainerKind.INIT if at < inits else ContainerKind.APP
    shares = (builders.a_share(row.get("gpu", f"{at}-{index}"), row["mem"]) for index, row in enumerate(rows))
    return builders.allocated(*shares, kind=kind)
