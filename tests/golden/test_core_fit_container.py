"""One container on one node, with what the node itself says before any card is looked at."""

from dataclasses import replace
from typing import Any

import pytest

from hami_plugins.engine.place import Placer
from hami_plugins.engine.registry import Registry
from hami_plugins.model.devices import Profile, SlicePlacement
from hami_plugins.model.policy import DEFAULT_POLICY
from hami_plugins.model.requests import Percent
from hami_plugins.model.units import CoreShare, MiB, VendorName
from hami_plugins.model.verdicts import Fit, NoFit, Reason
from hami_plugins.vendors import nvidia
from tests import builders
from tests.golden import cases

DEVIATIONS = {
    "fitc-f31": "a request is made by a registered vendor, so a type that nobody knows cannot be asked for",
    "fitc-f24": "upstream's words for it are not stated; ours are those of its check for placements",
}

REGISTRY = Registry([nvidia.SPEC])
SMALL = MiB(2048)
"""Memory of the slices of the cards here; a request names no more unless its vector says so."""


@cases.each("hami-core/fit-container.yaml")
def test_container_fits_as_its_vector_says(case: cases.Case) -> None:
    if case.id == "fitc-f31":
        with pytest.raises(KeyError):
            Placer(builders.a_demand(builders.a_request(vendor="unknown")), DEFAULT_POLICY, REGISTRY)
        return
    row = case.given["request"]
    memory = Percent(row["pct"]) if "pct" in row else SMALL
    demand = builders.a_demand(builders.a_request(vendor="NVIDIA", count=row["nums"], memory=memory))
    verdict = Placer(demand, DEFAULT_POLICY, REGISTRY)(builders.a_state(*map(_device, case.given["devices"])))
    if case.expect["fit"]:
        assert isinstance(verdict, Fit)
        shares = verdict.containers[0].shares()
        assert (len(shares), len({share.position for share in shares})) == (row["nums"], 1)
        return
    assert isinstance(verdict, NoFit)
    words = {"fitc-f24": f"1/1 {Reason.PARTITION}"}.get(case.id, case.expect.get("reason", verdict.words))
    assert verdict.words == words


def _device(row: dict[str, Any]) -> Any:
    card = builders.a_device(vendor="NVIDIA", memory=row.get("totalmem", 8192), mode=row.get("mode", "hami-core"))
    if card.mode != "mig":
        return card
    places = tuple(SlicePlacement(at, 1) for at in range(row.get("free_placements", 1)))
    return replace(card, vendor=VendorName("NVIDIA"), profiles=(Profile("1g.2gb", SMALL, CoreShare(14), 1, places),))
