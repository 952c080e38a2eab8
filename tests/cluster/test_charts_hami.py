"""A values file of HAMi's chart: one run of Helm says where each of its values is set here, or why it is not."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.helm import ALLOCATOR, KOORDINATOR, UMBRELLA, VOLCANO_VGPU, Helm, HelmError, objects, of_kind

PATHS = tuple((Path(__file__).parent / "hami_values.txt").read_text().split())
"""Every value of HAMi 2.10's chart but those that have the same name and meaning here."""

OVERRIDES = {"nameOverride", "fullnameOverride", "namespaceOverride"}
OWN = {
    UMBRELLA: set[str](),
    VOLCANO_VGPU: OVERRIDES | {"global.managedNodeSelectorEnable"},
    ALLOCATOR: OVERRIDES | {"schedulerName", "global.gpuHookPath"},
    KOORDINATOR: OVERRIDES | {"global.gpuHookPath"},
}
"""Values of the chart's own, or in the same map as one that every installation sets."""


@pytest.fixture
def helm(programs: Mapping[str, Path], tmp_path: Path) -> Helm:
    return Helm(programs["helm3"], tmp_path / "helm")


def whole_file() -> dict[str, Any]:
    """A values file in which each of them is set."""
    found: dict[str, Any] = {}
    for path in PATHS:
        *above, last = path.split(".")
        held = found
        for word in above:
            held = held.setdefault(word, {})
        held[last] = True if last == "managedNodeSelectorEnable" else "a"
    return found


@pytest.mark.parametrize("chart", OWN, ids=lambda chart: chart.name)
def test_all_values_of_hamis_chart_are_told_in_one_run(helm: Helm, chart: Path) -> None:
    with pytest.raises(HelmError) as caught:
        helm.template(chart, whole_file())
    told = dict(line.split(": ", 1) for line in str(caught.value).splitlines() if ": " in line)
    for path in set(PATHS) - OWN[chart]:
        whole_path = [path.rsplit(".", above)[0] for above in range(path.count(".") + 1)]
        nearest = next((each for each in whole_path if each in told), "")
        assert nearest, path
        if not path.startswith("global."):
            assert re.match(r"(the value is called|no such value) .+", told[nearest]), path
    assert not OWN[chart] & told.keys()


@pytest.mark.parametrize(
    ("chart", "own"),
    [
        (VOLCANO_VGPU, {"agent": {"image": {"tag": "1"}, "settings": {"hookPath": "/opt/vgpu"}}}),
        (ALLOCATOR, {"image": {"tag": "1"}, "nodeSelector": {"a": "b"}}),
        (KOORDINATOR, {"image": {"tag": "1"}, "nodeSelector": {"a": "b"}}),
    ],
    ids=lambda each: getattr(each, "name", ""),
)
def test_a_global_of_hamis_may_stay_where_our_own_value_is_set(helm: Helm, chart: Path, own: dict[str, Any]) -> None:
    """It is then the value of HAMi's chart next to this project's, and the message has to name it."""
    shared = {"imageTag": "v2.10.0", "gpuHookPath": "/usr/local", "managedNodeSelectorEnable": True}
    found = objects(helm.template(chart, {"global": shared, **own}))
    made = [*of_kind(found, "Deployment"), *of_kind(found, "DaemonSet")]
    images = {each["spec"]["template"]["spec"]["containers"][0]["image"].rpartition(":")[2] for each in made}
    assert images == {"1"}


def test_hamis_switches_that_are_off_are_no_request(helm: Helm) -> None:
    shared = {"managedNodeSelectorEnable": False, "managedNodeSelector": {"usage": "gpu"}, "imageTag": ""}
    assert objects(helm.template(ALLOCATOR, {"global": shared}))
