"""The default of an unset feature gate, against the vectors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tests.golden.cases import Case, each, of
from tests.unit.koordinator_adapter.doctor.cluster import Raw, diagnosis, healthy

Cluster = dict[str, Raw]
PROGRAMS = {"koordlet": "koordlet", "koord-manager": "manager"}


def nobody_publishes(objects: Cluster) -> None:
    del objects["device"], objects["pod"]


def nothing_special(_objects: Cluster) -> None:
    """As it is."""


def no_slots(objects: Cluster) -> None:
    del objects["node"]["status"]["allocatable"]["koordinator.sh/gpu.shared"]


READ: Mapping[str, Callable[[Cluster], Any]] = {
    "gate-koordlet-accelerators": nobody_publishes,
    "gate-koordlet-gpuenvinject": nothing_special,
    "gate-koord-manager-enablesyncgpusharedresource": no_slots,
    "gate-koord-manager-disabledeviceresourcespec": no_slots,
}
"""The gates by which ``doctor`` judges a cluster, and the cluster in which each decides."""

UNREAD = {case.id for case in of("koordinator/gates.yaml")} - READ.keys()
"""Of the others nothing here depends."""


def findings(case: Case, *gates: str) -> list[tuple[str, str]]:
    objects = healthy()
    READ[case.id](objects)
    name = PROGRAMS[case.given["component"]]
    listed = [f"--feature-gates={','.join(gates)}"] if gates else ["--v=4"]
    objects[name]["spec"]["template"]["spec"]["containers"][0]["args"] = listed
    return [(each_one.check, each_one.words) for each_one in diagnosis(objects).findings]


@each("koordinator/gates.yaml", without=UNREAD)
def test_a_gate_that_nobody_sets_is_what_it_is_by_default(case: Case) -> None:
    gate, default = case.given["gate"], case.expect["default"] or False
    assert case.expect["exists"]
    assert findings(case) == findings(case, f"{gate}={str(default).lower()}")
    assert findings(case) != findings(case, f"{gate}={str(not default).lower()}")
