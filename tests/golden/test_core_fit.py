"""NVIDIA's fit on candidates that are sorted already; upstream takes them from the tail."""

from dataclasses import replace
from typing import Any

from hami_plugins.engine.demand import selector_of
from hami_plugins.engine.fit import Fitter, RequestRefusal
from hami_plugins.engine.place import Placer
from hami_plugins.engine.policies import DEVICE_POLICY_KEY, NUMA_BIND_KEY, PolicyDefaults, policy_of
from hami_plugins.engine.registry import Registry
from hami_plugins.model.devices import DeviceShare
from hami_plugins.model.inventory import DeviceInventory, NodeObject
from hami_plugins.model.nodes import NodeShape
from hami_plugins.model.policy import DEFAULT_POLICY, Policy
from hami_plugins.model.requests import Absolute, DeviceRequest, Percent
from hami_plugins.model.units import CoreShare, DeviceId, MiB, NodeName, VendorName
from hami_plugins.model.vendor import Candidate, ContainerRequest
from hami_plugins.model.verdicts import NoFit, Reason
from hami_plugins.vendors import nvidia
from hami_plugins.wire import node_devices
from hami_plugins.wire.node_devices import RegisteredDevice
from tests import acme, builders
from tests.golden import cases

DEVIATIONS = {
    "fit-f04": "a request sees the cards of its own vendor only, so one of another type finds none; it is not compared",
}

_STATED = cases.document("hami-core/fit.yaml")
_OPEN = {**_STATED["fill_in"]["device"], **_STATED["defaults"]["device"]}
_OPEN_REQUEST = {**_STATED["fill_in"]["request"], **_STATED["defaults"]["request"]}


@cases.each("hami-core/fit.yaml")
def test_fit_answers_as_its_vector_says(case: cases.Case) -> None:
    rows = [{**_OPEN, **row} for row in case.given["devices"]]
    request = _request({**_OPEN_REQUEST, **case.given["request"]}, case.given["pod_annotations"])
    if request.vendor != nvidia.SPEC.name:
        assert _words_for_a_stranger(request) == Reason.TOO_FEW_CARDS
        return
    inventory = _inventory(rows, case.given["node_annotations"], case.given.get("pair_scores"))
    found = _fitted(request, inventory, rows, _policy(case.given))
    if not case.expect["fit"]:
        assert isinstance(found, RequestRefusal)
        assert found.words == case.expect.get("reason", found.words)
        return
    assert not isinstance(found, RequestRefusal), found.words
    ids = [inventory.ids[share.position] for share in found]
    assert ids == case.expect.get("uuids", ids)
    assert sorted(ids) == sorted(case.expect.get("uuids_unordered", ids))
    assert len(ids) == case.expect.get("chosen_count", len(ids))
    assert found[0].cores == case.expect.get("cores", found[0].cores)
    assert found[0].memory == case.expect.get("mem", found[0].memory)


def _request(row: dict[str, Any], annotations: dict[str, str]) -> DeviceRequest:
    by_percentage = row["memreq"] == 0 and row["pct"] != 101
    return DeviceRequest(
        vendor=VendorName(row["type"]),
        count=row["nums"],
        memory=Percent(row["pct"]) if by_percentage else Absolute(MiB(row["memreq"])),
        cores=CoreShare(row["cores"]),
        selector=selector_of(nvidia.SPEC.keys, annotations),
    )


def _policy(given: dict[str, Any]) -> Policy:
    words = {NUMA_BIND_KEY: given["pod_annotations"].get(NUMA_BIND_KEY, "")}
    return policy_of({**words, **({DEVICE_POLICY_KEY: given["policy"]} if given["policy"] else {})}, PolicyDefaults())


def _inventory(rows: list[dict[str, Any]], annotations: dict[str, str], scores: list[Any] | None) -> DeviceInventory:
    register = node_devices.encode_json(
        RegisteredDevice(
            id=DeviceId(row["uuid"]),
            index=at,
            slots=row["count"],
            memory=MiB(row["totalmem"]),
            cores=CoreShare(row["totalcore"]),
            model=row["type"],
            numa=row["numa"],
            mode=row["mode"],
            healthy=row["health"],
        )
        for at, row in enumerate(rows)
    )
    said = {nvidia.SPEC.keys.register: register, **annotations}
    if scores is not None:
        pairs: dict[DeviceId, dict[DeviceId, int]] = {DeviceId(row["uuid"]): {} for row in rows}
        for one, other, score in scores:
            pairs[one][other] = pairs[other][one] = score
        said[nvidia.SPEC.keys.pair_scores] = node_devices.encode_pair_scores(pairs)
    return nvidia.inventory(nvidia.SPEC, NodeObject(NodeName("n"), said, {}, {}, {}))


def _fitted(
    request: DeviceRequest, inventory: DeviceInventory, rows: list[dict[str, Any]], policy: Policy
) -> tuple[DeviceShare, ...] | RequestRefusal:
    fitter = Fitter.of(nvidia.SPEC, request, policy)
    shape = NodeShape(inventory.devices, inventory.links)
    candidates = [
        Candidate(
            at,
            device,
            builders.used(rows[at]["used"], rows[at]["usedmem"], rows[at]["usedcores"]),
            request.selector.accepts_id(inventory.ids[at]),
        )
        for at, device in enumerate(inventory.devices)
    ]
    return fitter.fit(candidates[::-1], ContainerRequest(fitter.request, policy, shape))


def _words_for_a_stranger(request: DeviceRequest) -> str:
    """What a node of NVIDIA cards says to a request of another type."""
    stranger = replace(acme.SPEC, name=request.vendor)
    placer = Placer(builders.a_demand(request), DEFAULT_POLICY, Registry([nvidia.SPEC, stranger]))
    verdict = placer(builders.a_state(builders.a_device(vendor="NVIDIA")))
    assert isinstance(verdict, NoFit)
    return verdict.words
