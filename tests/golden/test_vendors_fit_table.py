"""Which rules hold for which vendor, as the reference's table has it: each cell is tried on one card."""

import re
from typing import Any

from hami_plugins.engine.fit import Affordable, Fitter, RequestRefusal
from hami_plugins.engine.policies import PolicyDefaults, policy_of
from hami_plugins.model.devices import CoreMask, DeviceUsage, Tenant
from hami_plugins.model.nodes import NodeShape
from hami_plugins.model.units import CoreShare, MiB
from hami_plugins.model.vendor import Candidate, ContainerRequest, VendorSpec
from hami_plugins.model.verdicts import Reason
from tests.golden import cases, notation

_QUOTA = "HAMi asks the quota again only for two vendors; who has a memory or core resource is asked here"
_WHOLE = "who takes all cores of a card takes the card, whatever its cores are counted in"

DEVIATIONS: dict[str, dict[str, str]] = {
    **{f"fittab-{row:03}": {"quota_at_fit": _QUOTA} for row in range(1, 17) if row not in (1, 2)},
    "fittab-012": {"quota_at_fit": _QUOTA, "exclusive_100": _WHOLE},
    "fittab-013": {"quota_at_fit": _QUOTA, "exclusive_100": _WHOLE},
}
"""What differs on purpose: the cell, and why."""

_FAMILIES = {
    "Ascend": ("Ascend910A", "Ascend910B2", "Ascend910B3", "Ascend910B4-1", "Ascend910B4", "Ascend310P", "Ascend910C"),
    "Iluvatar": ("MR-V100", "MR-V50", "BI-V150", "BI-V100"),
}


@cases.each("hami-vendors/fit-table.yaml")
def test_rules_hold_for_the_vendor_as_its_row_says(case: cases.Case) -> None:
    backend, expect, differs = case.given["backend"], case.expect, DEVIATIONS.get(case.id, {})
    for name in _FAMILIES.get(backend, (backend,)):
        spec = notation.vendor(name)
        full = 16 if name == "Mthreads" else 100
        quota = _answer(spec, cores=1, limit=lambda _: False)
        assert (Reason.QUOTA in quota) is (expect["quota_at_fit"] == "yes" or "quota_at_fit" in differs)
        mutex = _answer(spec, cores=1, used=DeviceUsage(slots=1), annotations={"hami.io/gpu-scheduler-policy": "mutex"})
        assert Reason.EXCLUSIVE in mutex
        sold = _answer(spec, cores=0, used=DeviceUsage(slots=1, cores=CoreShare(full)))
        assert (Reason.COMPUTE in sold) is _says_yes(expect["zero_core_rule"])
        whole = _answer(spec, cores=full, used=DeviceUsage(slots=1))
        exclusive = _says_yes(expect["exclusive_100"]) or expect["exclusive_100"] == "implied"
        assert (Reason.EXCLUSIVE in whole) is (exclusive or "exclusive_100" in differs)
        for word in re.findall(r"\b(?:Card|Mode|Numa)\w+", expect["special"]):
            assert word in set(Reason)


def _says_yes(cell: str) -> bool:
    return cell.startswith("yes")


def _answer(
    spec: VendorSpec,
    *,
    cores: int,
    used: DeviceUsage | None = None,
    annotations: dict[str, str] | None = None,
    limit: Affordable | None = None,
) -> set[Reason]:
    """The objections to one request on one card of the vendor; none when it fits."""
    annotations = annotations or {}
    row: dict[str, Any] = {"count": 10, "totalmem": 40960, "totalcore": 100, "index": 0, "health": True}
    asked = {"nums": 1, "memreq": 0, "pct": 1, "cores": cores}
    used = used or DeviceUsage()
    match spec.name:
        case "Mthreads":
            row["totalcore"] = 16
        case "XPU":
            # A card holds slices of one size.
            row["totalmem"], asked["memreq"] = 98304, 24576
            used = used._replace(memory=MiB(24576 * used.slots))
        case "Enflame":
            row["custominfo"] = {"profiles": {"1g.1gb": "0", "6g.6gb": "1"}}
            asked["memreq"], asked["pct"] = (6 if cores == 100 else 1), 0
        case "AMD":
            asked["memreq"] = 1
        case "AWSNeuron":
            row["totalcore"] = 3
            if used.slots:
                used = used._replace(cores=CoreShare(1), marks=(CoreMask(1),))
            asked["cores"] = 2 if cores == 100 else 1
        case "Metax-SGPU":
            used = used._replace(marks=(Tenant("", ""),) if used.slots else ())
    policy = policy_of(annotations, PolicyDefaults())
    fitter = Fitter.of(spec, notation.read(spec, asked, annotations), policy)
    shape = NodeShape((notation.device(spec, row),))
    ask = ContainerRequest(fitter.request, policy, shape, (), spec.fitting.cores_of, spec.fitting.memory_of, [used])
    found = fitter.fit([Candidate(0, shape.devices[0], used)], ask, limit)
    return {reason for reason, _ in found.reasons} if isinstance(found, RequestRefusal) else set()
