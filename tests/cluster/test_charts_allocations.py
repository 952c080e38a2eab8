"""The admission policies of the charts, installed side by side: each refuses forged allocations of its own product."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.cluster.allocating import PLURALS, Site, a_binding, a_pod, a_site, annotated, installed, refused
from tests.cluster.helm import UMBRELLA, Helm, objects
from tests.cluster.kubernetes import ControlPlane

LISTED = 'o\'brien "the\\\\ops" <admin>'
CHARTS = ("volcano-vgpu", "allocator", "koordinator-adapter")
KEYS = {
    "volcano-vgpu": "volcano.sh/vgpu-ids-new",
    "allocator": "AWS_NEURON_IDS",
    "koordinator-adapter": "scheduling.koordinator.sh/device-allocated",
}
WRITERS = {
    "volcano-vgpu": (
        "volcano-system:volcano-scheduler",
        "kube-system:volcano-device-plugin",
        "here:one-volcano-vgpu-agent",
    ),
    "allocator": (
        "kube-system:neuron-device-plugin",
        "kube-system:hami-device-plugin",
        "here:one-allocator",
    ),
    "koordinator-adapter": ("koordinator-system:koord-scheduler", "koordinator-system:koordlet"),
}

every_chart = pytest.mark.parametrize("chart", CHARTS)


@pytest.fixture(scope="module")
def site(
    control_plane: ControlPlane, programs: Mapping[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    """All three products of the umbrella, each with one account of the operator's own."""
    helm = Helm(programs["helm3"], tmp_path_factory.mktemp("helm"))
    values: dict[str, dict[str, object]] = {
        chart: {"enabled": True, "allocationPolicy": {"users": [LISTED]}} for chart in CHARTS
    }
    values["allocator"]["vendors"] = ["AWSNeuron", "NVIDIA"]
    found = objects(helm.template(UMBRELLA, values))
    policies = [each for each in found if each["kind"] in PLURALS and each["metadata"]["name"].endswith("-allocations")]
    assert len({(each["kind"], each["metadata"]["name"]) for each in policies}) == 6
    with a_site(control_plane, "charted", LISTED) as made, installed(made, policies, *KEYS.values()):
        yield made


@every_chart
def test_a_forged_allocation_is_refused_with_the_charts_own_remedy(site: Site, chart: str) -> None:
    key, remedy = KEYS[chart], f"list it under allocationPolicy.users of the chart {chart}"
    pod = a_pod("forged", {key: "x"}, nodeName="n1")
    refused(key, site.editor.create, site.pods, pod)
    refused(remedy, site.editor.create, site.pods, pod)
    site.pod(f"plain-{chart}", {"theirs": "x"})
    refused(key, site.editor.merge_patch, f"{site.pods}/plain-{chart}", annotated(**{key: "x"}))
    refused(key, site.owner.merge_patch, f"{site.pods}/plain-{chart}/status", annotated(**{key: "x"}))
    refused(key, site.owner.create, f"{site.pods}/plain-{chart}/binding", a_binding(f"plain-{chart}", {key: "x"}))
    assert site.annotations(f"plain-{chart}") == {"theirs": "x"}


@every_chart
def test_those_that_allocate_need_to_be_listed_once(site: Site, chart: str) -> None:
    key = KEYS[chart]
    accounts = [f"system:serviceaccount:{each}" for each in WRITERS[chart]]
    for at, user in enumerate((*accounts, "system:kube-scheduler", LISTED)):
        name = f"{chart}-{at}"
        site.editor.create(site.pods, a_pod(name))
        who = site.acting(user)
        who.merge_patch(f"{site.pods}/{name}", annotated(**{key: user}))
        who.create(f"{site.pods}/{name}/binding", a_binding(name, {key: "bound"}))
        assert site.annotations(name) == {key: "bound"}


def test_the_scheduler_of_one_product_writes_no_allocation_of_another(site: Site) -> None:
    site.pod("other")
    koordinator = site.acting("system:serviceaccount:koordinator-system:koord-scheduler")
    refused(
        KEYS["volcano-vgpu"], koordinator.merge_patch, f"{site.pods}/other", annotated(**{KEYS["volcano-vgpu"]: "x"})
    )
