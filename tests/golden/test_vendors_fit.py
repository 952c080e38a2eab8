"""One request against one node's devices, every vendor."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hami_plugins.engine.fit import Affordable, Fitter, RequestRefusal
from hami_plugins.engine.policies import PolicyDefaults, policy_of
from hami_plugins.model.devices import DeviceShare
from hami_plugins.model.nodes import NodeShape
from hami_plugins.model.units import DeviceId, VendorName
from hami_plugins.model.vendor import Candidate, ContainerRequest, VendorSpec
from hami_plugins.wire import node_devices
from tests.golden import cases, notation

_PROMISED = (
    "what is promised of a card counts for every vendor; a card with nothing promised is where the text's case ends up"
)
_NO_CORES = "a request always names 1 to 100 %, because none means 100; below one compute unit it is one"

DEVIATIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "fit-238": (
        "ambiguous; as in HAMi's code what the node says wins over the flag",
        {"fit": False, "reason": "1/1 ModeNotFit"},
    ),
    "fit-242": (
        "HAMi wants all of a pod's MetaX cards to be one card, which whole cards of two containers cannot be",
        {"fit": True, "reason": "", "picks": ["dev-0"]},
    ),
    "fit-282": (
        "HAMi does not count the slices of a card against those it registered; we do",
        {"fit": False, "reason": "1/8 NumaNotFit"},
    ),
    "fit-289": (_PROMISED, {"fit": False, "reason": "1/1 CardInsufficientMemory"}),
    "fit-290": (_NO_CORES, {"pick": {"mem": 1000, "cores": 1}}),
    "fit-302": (_NO_CORES, {"pick": {"mem": 1000, "cores": 1}}),
    "fit-303": (_NO_CORES, {"pick": {"mem": 500, "cores": 1}}),
    "fit-323": (
        "HAMi looks at id lists only when one device is asked for; we always do",
        {"fit": False, "reason": "1/2 NumaNotFit"},
    ),
}
"""What differs on purpose: why, and the members of the expectation that we answer instead."""


@cases.each("hami-vendors/fit.yaml")
def test_request_fits_as_its_vector_says(case: cases.Case) -> None:
    _, instead = DEVIATIONS.get(case.id, ("", {}))
    assert problems(case, {**case.expect, **instead}) == []


def problems(case: cases.Case, expect: dict[str, Any]) -> list[str]:
    """The members of the expectation that the answer does not meet."""
    given = case.given
    spec = notation.vendor(given["backend"], given.get("extra"))
    shape = _shape(spec, given)
    if given["request"]["type"] != given["backend"]:
        # A request of another type sees none of this vendor's cards; in HAMi the vendor's Fit notices at last.
        return [] if not shape.positions.get(VendorName(given["request"]["type"])) else ["cards of another vendor"]
    found = _fit(spec, shape, given)
    if isinstance(found, RequestRefusal):
        met = not expect["fit"] and expect.get("reason_contains", "") in found.words
        met = met and expect.get("reason", found.words) == found.words
        return [] if met else [found.words]
    if not expect["fit"]:
        return [f"fits: {found}"]
    return _differing_picks(given, found, expect)


def _differing_picks(given: dict[str, Any], found: Sequence[DeviceShare], expect: dict[str, Any]) -> list[str]:
    ids = [given["devices"][share.position]["id"] for share in found]
    wanted = expect.get("picks", ids)
    unordered = (given.get("extra") or {}).get("picks_unordered")
    if sorted(ids) != sorted(wanted) if unordered else ids != wanted:
        return [f"picks {ids}"]
    pick = expect.get("pick") or {}
    amounts = [{"mem": share.memory, "cores": notation.booked_cores(share)} for share in found]
    return [str(each) for each in amounts for name in each if pick.get(name, each[name]) != each[name]]


def _shape(spec: VendorSpec, given: dict[str, Any]) -> NodeShape:
    rows, extra, said = given["devices"], given.get("extra") or {}, given.get("node_annotations") or {}
    cordoned = node_devices.decode_cordon(said.get("hami.io/device-cordon", ""))
    soft = said.get("hami-vnpu-core", str(extra.get("hamiVnpuCore", "false")).lower()) == "true"
    devices = tuple(
        replace(
            device := notation.device(spec, row),
            cordoned=row["id"] in cordoned,
            mode="hami-core" if soft else device.mode,
        )
        for row in rows
    )
    scores = extra.get("pair_scores")
    links = tuple(tuple(scores[one["id"]].get(other["id"], 0) for other in rows) for one in rows) if scores else ()
    return NodeShape(devices, links)


def _fit(spec: VendorSpec, shape: NodeShape, given: dict[str, Any]) -> Sequence[DeviceShare] | RequestRefusal:
    rows, extra, annotations = given["devices"], given.get("extra") or {}, given.get("annotations") or {}
    policy = policy_of(annotations, PolicyDefaults())
    fitter = Fitter.of(spec, notation.read(spec, given["request"], annotations), policy)
    classes = extra.get("device_pod_app_classes") or {}
    usage = [notation.usage(spec, row, classes.get(row["id"], ())) for row in rows]
    names = [row["id"] for row in rows]
    held = tuple(names.index(each) if each in names else -1 for each in extra.get("already_allocated_uuids", ()))
    selector = fitter.request.selector
    candidates = [
        Candidate(at, shape.devices[at], usage[at], selector.accepts_id(DeviceId(names[at])))
        for at in reversed(range(len(rows)))
    ]
    ask = ContainerRequest(fitter.request, policy, shape, held, spec.fitting.cores_of, spec.fitting.memory_of, usage)
    return fitter.fit(candidates, ask, _within(extra.get("quota_limit_mib")))


def _within(limit: int | None) -> Affordable | None:
    return None if limit is None else lambda shares: sum(share.memory for share in shares) <= limit
