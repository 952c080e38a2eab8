"""``--usage``: containers' usage, next to an explanation and on the page of a plan."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hami_plugins.inputs import fleets
from tests import raw_objects
from tests.schema import ADAPTER
from tests.unit.cli.conftest import FITS, Type

ALLOCATED = "hami.io/vgpu-devices-allocated"
GIB = 1 << 30


def a_pod(name: str, memory: int, **metadata: Any) -> dict[str, Any]:
    asks = raw_objects.container(limits={"nvidia.com/gpu": "1", "nvidia.com/gpumem": str(memory)})
    return raw_objects.pod(name, asks, metadata={"namespace": "default", **metadata})


@pytest.fixture
def card() -> str:
    (node,) = fleets.nodes_of(fleets.parse("nodes: [{shape: t4x1}]", source="test"))
    register: Any = node["metadata"]["annotations"]["hami.io/node-nvidia-register"]  # type: ignore[index]
    return str(json.loads(register)[0]["id"])


@pytest.fixture
def dump(tmp_path: Path, card: str) -> Path:
    """A T4 with a pod on it that has most of it, and one that waits for more than is left."""
    (node,) = fleets.nodes_of(fleets.parse("nodes: [{shape: t4x1}]", source="test"))
    runs = a_pod("runs", 12_288, annotations={ALLOCATED: f"{card},NVIDIA,12288,0:;"})
    runs["spec"]["nodeName"] = "t4x1-0"
    system = a_pod("proxy", 1, namespace="kube-system")
    system["spec"] = {"nodeName": "t4x1-0", "containers": [{"name": "main"}]}
    file = tmp_path / "dump.json"
    file.write_text(
        json.dumps({"kind": "List", "items": [node, system, runs, a_pod("big", 12_000), a_pod("small", 1000)]}),
        encoding="utf-8",
    )
    return file


@pytest.fixture
def used(tmp_path: Path, card: str) -> Path:
    container = {
        "namespace": "default",
        "pod": "runs",
        "podUid": "u",
        "container": "main",
        "processes": 1,
        "lastKernelAgeSeconds": 7200,
        "cards": [
            {
                "id": card,
                "memoryAllocatedBytes": 12 * GIB,
                "memoryUsedByKindBytes": {"context": 0, "module": 0, "data": 2 * GIB, "other": 0},
                "utilizationRatio": 0.25,
            }
        ],
    }
    file = tmp_path / "usage.json"
    file.write_text(json.dumps({"kind": "DeviceUsage", "node": "t4x1-0", "time": "", "containers": [container]}))
    return file


def test_a_running_pod_says_what_it_uses_of_its_allocation(type_in: Type, dump: Path, used: Path, card: str) -> None:
    said = type_in("explain", "pod", "default/runs", "--snapshot", dump, "--usage", used)
    assert said.out.splitlines()[-1] == (
        f"  container main: uses 2 GiB of 12 GiB on {card}, 25% busy, last kernel 2 h ago"
    )


def test_while_a_pod_waits_it_says_whose_allocations_are_left_unused(type_in: Type, dump: Path, used: Path) -> None:
    said = type_in("explain", "pod", "default/big", "--snapshot", dump, "--usage", used)
    assert said.out.splitlines()[-1] == "  unused meanwhile: 10 GiB of default/runs, container main"


def test_a_pod_that_fits_by_now_needs_nobody_elses_allocation(type_in: Type, dump: Path, used: Path) -> None:
    said = type_in("explain", "pod", "default/small", "--snapshot", dump, "--usage", used)
    assert "it fits now" in said.out
    assert "unused meanwhile" not in said.out


def test_the_document_has_the_usage_and_is_as_the_schema_says(type_in: Type, dump: Path, used: Path) -> None:
    said = type_in("explain", "pod", "default/runs", "--snapshot", dump, "--usage", used, "-o", "json")
    (container,) = json.loads(said.out)["usage"]
    assert container["cards"][0]["memoryUsedBytes"] == 2 * GIB
    ADAPTER.validate_python(json.loads(said.out), strict=True)
    said = type_in("explain", "pod", "default/runs", "--snapshot", dump, "-o", "json")
    assert json.loads(said.out)["usage"] == []


def test_the_page_of_a_plan_shows_it(type_in: Type, dump: Path, used: Path, tmp_path: Path) -> None:
    html = tmp_path / "plan.html"
    type_in("plan", "-f", "-", "--snapshot", dump, "--usage", used, "--html", html, stdin=FITS)
    assert "Allocated and not used" in html.read_text(encoding="utf-8")


def test_usage_without_a_page_is_refused(type_in: Type, dump: Path, used: Path) -> None:
    said = type_in("plan", "-f", "-", "--snapshot", dump, "--usage", used, stdin=FITS)
    assert (said.code, said.err) == (2, "error: --usage is shown on the page; also give --html FILE\n")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"kind": "VolcanoCards"}', "usage: kind: expected DeviceUsage, as volcano-vgpu usage -o json writes it"),
        ("- 1", "not a mapping but list"),
    ],
)
def test_another_file_is_refused_by_its_name(type_in: Type, dump: Path, tmp_path: Path, text: str, says: str) -> None:
    wrong = tmp_path / "wrong.json"
    wrong.write_text(text)
    said = type_in("explain", "pod", "default/runs", "--snapshot", dump, "--usage", wrong)
    assert said.code == 2
    assert str(wrong) in said.err
    assert says in said.err
