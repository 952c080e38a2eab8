"""Plans, explanations and findings about Neuron pods, with the vendor that the pack plugs in."""

from __future__ import annotations

import tomllib
from importlib import metadata
from pathlib import Path

import pytest
import yaml

from hami_plugins.cli import plugged
from neuron_topology.names import CORES, DEVICES, INSTANCE_LABEL, LEGACY_DEVICES
from neuron_topology.nodes import FAMILY_LABEL, HEALTH_KEY
from neuron_topology.vendor import SPEC
from tests.unit.cli.conftest import Type

PROJECT = Path(__file__).parents[3] / "pyproject.toml"


@pytest.fixture(autouse=True)
def with_the_packs_vendors(monkeypatch: pytest.MonkeyPatch) -> None:
    """The entry points as the project declares them, whatever is installed."""
    declared = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]["entry-points"]
    known = metadata.EntryPoints(
        metadata.EntryPoint(name, value, group) for group, each in declared.items() for name, value in each.items()
    )
    monkeypatch.setattr(metadata, "entry_points", known.select)


def a_node(name: str, *, family: str = "aws", annotations: dict[str, str] | None = None) -> dict[str, object]:
    offered = {"cpu": "128", "memory": "512Gi", "pods": "110", DEVICES: "16", CORES: "32"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {INSTANCE_LABEL: "trn1.32xlarge", FAMILY_LABEL: family},
            "annotations": annotations or {},
        },
        "status": {
            "capacity": offered,
            "allocatable": offered,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def a_pod(name: str, node: str = "", ids: str = "", **limits: int | str) -> dict[str, object]:
    listed = ids and {"hami.io/aws-neuron-devices-allocated": ids}
    resources = {key.replace("_", "/").replace("aws/", "aws.amazon.com/"): value for key, value in limits.items()}
    spec: dict[str, object] = {
        "containers": [{"name": "main", "image": "i", "resources": {"limits": resources, "requests": resources}}]
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "lab", "uid": name, "annotations": listed or {}},
        "spec": spec | ({"nodeName": node} if node else {}),
        "status": {"phase": "Running" if node else "Pending"},
    }


def written(path: Path, *objects: dict[str, object]) -> Path:
    path.write_text("---\n".join(yaml.safe_dump(each) for each in objects), encoding="utf-8")
    return path


def held(*devices: int) -> str:
    return "".join(f"n-AWSNeuron-{device},AWSNeuron,0,3:" for device in devices) + ";"


def test_the_packs_vendor_takes_the_place_of_hamis() -> None:
    assert list(plugged.vendors()) == [SPEC]


def test_a_plan_places_pods_on_the_sets_of_each_pool(type_in: Type, tmp_path: Path) -> None:
    cluster = written(tmp_path / "cluster.yaml", a_node("rows"), a_node("wide", family="linked"))
    pair = written(tmp_path / "pair.yaml", a_pod("pair", aws_neuron=2))
    said = type_in("plan", "-f", pair, "--snapshot", cluster, "--annotations", "hami")
    assert said.code == 0, said.out
    assert "wide" in said.out
    assert "AWS_NEURON_IDS: 0,1" in said.out


def test_a_pod_that_waits_for_a_set_is_told_what_is_free(type_in: Type, tmp_path: Path) -> None:
    cluster = written(
        tmp_path / "cluster.yaml",
        a_node("n", family="linked"),
        a_pod("busy", "n", held(0, 2, 5, 11, 13), aws_neuron=5),
        a_pod("waits", aws_neuron=4),
    )
    said = type_in("explain", "pod", "lab/waits", "--snapshot", cluster)
    assert said.code == 1
    assert "no linked set of 4 among the 11 devices that are free" in said.out


def test_a_pod_that_waits_for_a_set_is_told_who_holds_the_nearest_and_sees_it(type_in: Type, tmp_path: Path) -> None:
    cluster = written(
        tmp_path / "cluster.yaml",
        a_node("n", family="linked"),
        a_pod("one", "n", held(0, 2, 5, 15), aws_neuron=4),
        a_pod("two", "n", held(7, 8, 10, 13), aws_neuron=4),
        a_pod("waits", aws_neuron=8),
    )
    said = type_in("explain", "pod", "lab/waits", "--snapshot", cluster)
    assert "8 of 16 are free on n, but no 8 of them may go together; the nearest are #" in said.out
    assert "lab/one holds #" in said.out
    assert "lab/two holds #" in said.out
    assert "~   4  --  5a --" in said.out or "[ 5a]" in said.out
    assert "a lab/one: 0,2,5,15" in said.out


def test_two_pods_are_offered_together_where_no_single_one_would_do(type_in: Type, tmp_path: Path) -> None:
    pods = [a_pod(f"p{at}", "n", held(at, at + 8), aws_neuron=2) for at in range(8)]
    cluster = written(tmp_path / "cluster.yaml", a_node("n"), *pods, a_pod("waits", aws_neuron=4))
    said = type_in("explain", "pod", "lab/waits", "--snapshot", cluster)
    assert "fits with one more node" in said.out
    four = [a_pod(f"q{at}", "n", held(at * 2, at * 2 + 1), aws_neuron=2) for at in range(8)]
    cluster = written(tmp_path / "cluster.yaml", a_node("n"), *four, a_pod("waits", aws_neuron=4))
    said = type_in("explain", "pod", "lab/waits", "--snapshot", cluster)
    assert "without pod lab/q0, which holds 4 cores on 2 cards and without pod lab/q1" in said.out


def test_the_label_of_the_other_family_is_offered_where_it_helps_alone(type_in: Type, tmp_path: Path) -> None:
    column = a_pod("column", "n", held(0, 4, 8, 12), aws_neuron=4)
    waiting = ((a_pod("waits", aws_neuron=4), True), (a_pod("waits", aws_neuroncore=8), False))
    for waits, helps in (*waiting, (a_pod("waits", aws_neuron=13), False)):
        cluster = written(tmp_path / "cluster.yaml", a_node("n"), column, waits)
        said = type_in("explain", "pod", "lab/waits", "--snapshot", cluster)
        assert ("fits with the label hami-plugins.io/neuron-sets=linked on node n" in said.out) is helps, said.out
        assert ("would have one" in said.out) is helps, said.out


def test_a_plan_draws_the_nodes_of_granted_sets(type_in: Type, tmp_path: Path) -> None:
    cluster = written(tmp_path / "cluster.yaml", a_node("n"), a_pod("busy", "n", held(1), aws_neuron=1))
    four = written(tmp_path / "four.yaml", a_pod("four", aws_neuron=4))
    page = tmp_path / "page.html"
    said = type_in("plan", "-f", four, "--snapshot", cluster, "--html", page)
    assert "[ 4b]==[ 5b]==[ 6b]==[ 7b]" in said.out
    assert "b lab/four: 4-7" in said.out
    assert "4x4 torus of n; lab/busy holds 1; lab/four holds 4-7; free 0,2-3,8-15" in page.read_text(encoding="utf-8")


def test_devices_are_drawn_with_the_order_in_which_the_pod_counts_them(type_in: Type, tmp_path: Path) -> None:
    cluster = written(tmp_path / "cluster.yaml", a_node("n", family="linked"))
    four = written(tmp_path / "four.yaml", a_pod("four", aws_neuron=4))
    said = type_in("plan", "-f", four, "--snapshot", cluster).out
    assert "lab/four: 0-1,12-13, in the order 0,1,13,12" in said
    told = type_in("plan", "-f", four, "--snapshot", cluster, "--annotations", "hami").out
    assert "AWS_NEURON_IDS: 0,1,13,12" in told


def test_a_plan_draws_no_more_nodes_than_a_screen_has_room_for(type_in: Type, tmp_path: Path) -> None:
    cluster = written(tmp_path / "cluster.yaml", *(a_node(f"n{at}") for at in range(5)))
    eights = written(tmp_path / "eights.yaml", *(a_pod(f"p{at}", aws_neuron=8) for at in range(10)))
    said = type_in("plan", "-f", eights, "--snapshot", cluster)
    assert said.out.count("4x4 torus") == 3
    assert "and 2 more nodes; --html draws them all" in said.out


def test_a_whole_node_is_not_drawn(type_in: Type, tmp_path: Path) -> None:
    cluster = written(tmp_path / "cluster.yaml", a_node("n"))
    whole = written(tmp_path / "whole.yaml", a_pod("whole", aws_neuron=16))
    assert "torus" not in type_in("plan", "-f", whole, "--snapshot", cluster).out


def test_an_explained_pod_is_drawn_where_it_runs_and_where_it_would_go(type_in: Type, tmp_path: Path) -> None:
    cluster = written(
        tmp_path / "cluster.yaml",
        a_node("n"),
        a_pod("runs", "n", held(4, 5, 6, 7), aws_neuron=4),
        a_pod("fits", aws_neuron=4),
    )
    assert "[ 4a]==[ 5a]==[ 6a]==[ 7a]" in type_in("explain", "pod", "lab/runs", "--snapshot", cluster).out
    assert "~ [ 0a]==[ 1a]==[ 2a]==[ 3a] ~" in type_in("explain", "pod", "lab/fits", "--snapshot", cluster).out


def test_equal_refusals_are_drawn_once(type_in: Type, tmp_path: Path) -> None:
    cluster = written(tmp_path / "cluster.yaml", a_node("n"), a_pod("column", "n", held(0, 4, 8, 12), aws_neuron=4))
    fours = written(tmp_path / "fours.yaml", a_pod("one", aws_neuron=4), a_pod("two", aws_neuron=4))
    said = type_in("plan", "-f", fours, "--snapshot", cluster)
    assert said.out.count("4x4 torus") == 1


def test_a_pod_that_asks_for_what_no_set_has_is_told_the_nearest_counts(type_in: Type, tmp_path: Path) -> None:
    cluster = written(tmp_path / "cluster.yaml", a_node("n"), a_pod("odd", aws_neuron=7))
    said = type_in("explain", "pod", "lab/odd", "--snapshot", cluster)
    assert "the nearest that it does: 4 or 8" in said.out
    assert "asked 7, which n never grants together; the nearest numbers that it does: 4 or 8" in said.out


def test_the_old_name_is_not_offered_by_todays_plugin(type_in: Type, tmp_path: Path) -> None:
    cluster = written(tmp_path / "cluster.yaml", a_node("n"), a_pod("old", aws_neurondevice=16))
    said = type_in("explain", "pod", "lab/old", "--snapshot", cluster)
    assert said.code == 1
    assert f"Insufficient {LEGACY_DEVICES}" in said.out
    old = written(tmp_path / "old.yaml", a_pod("old", aws_neurondevice=16))
    assert "AWS's plugin offers this name no more" in type_in("vet", "-f", old).out
    offering = a_node("n")
    offering["status"]["allocatable"] |= {LEGACY_DEVICES: "16"}  # type: ignore[index]
    assert type_in("vet", "-f", old, "--snapshot", written(tmp_path / "offering.yaml", offering)).code == 0


def test_what_a_pod_holds_as_devices_nobody_gets_as_cores(type_in: Type, tmp_path: Path) -> None:
    cluster = written(
        tmp_path / "cluster.yaml",
        a_node("n"),
        a_pod("busy", "n", held(*range(16)), aws_neuron=16),
        a_pod("cores", aws_neuroncore=2),
    )
    said = type_in("explain", "pod", "lab/cores", "--snapshot", cluster)
    assert said.code == 1
    assert "16/16 CardInsufficientCore" in said.out


def test_vet_asks_the_pools_which_counts_they_have(type_in: Type, tmp_path: Path) -> None:
    pair = written(tmp_path / "pair.yaml", a_pod("pair", aws_neuron=2))
    rows = written(tmp_path / "rows.yaml", a_node("rows"))
    wide = written(tmp_path / "wide.yaml", a_node("wide", family="linked"))
    assert "does not support requests for device: 2" in type_in("vet", "-f", pair, "--snapshot", rows).out
    assert type_in("vet", "-f", pair, "--snapshot", wide).code == 0


def test_both_units_in_one_container_are_refused(type_in: Type, tmp_path: Path) -> None:
    both = written(tmp_path / "both.yaml", a_pod("both", aws_neuron=1, aws_neuroncore=2))
    said = type_in("vet", "-f", both)
    assert said.code == 1
    assert "keep one of the two: whole devices, or cores of a device" in said.out


def test_what_is_broken_on_a_node_is_left_out_and_what_cannot_be_read_is_a_problem(
    type_in: Type, tmp_path: Path
) -> None:
    four = written(tmp_path / "four.yaml", a_pod("four", aws_neuron=4))
    broken = a_node("n", annotations={HEALTH_KEY: '{"devices": [1], "links": [[4, 5]]}'})
    said = type_in("plan", "-f", four, "--snapshot", written(tmp_path / "a.yaml", broken))
    assert "#8-11" in said.out
    unreadable = a_node("n", annotations={HEALTH_KEY: "?"})
    said = type_in("plan", "-f", four, "--snapshot", written(tmp_path / "b.yaml", unreadable))
    assert "#0-3" in said.out
    assert HEALTH_KEY in said.out + said.err


def aws_bound(name: str, node: str, ids: str, **limits: int | str) -> dict[str, object]:
    """A pod that AWS's scheduler extension, or somebody by hand, has given numbers."""
    found = a_pod(name, node, "", **limits)
    found["metadata"]["annotations"] = {"AWS_NEURON_IDS": ids, "NEURON_ALLOCATED": "true"}  # type: ignore[index]
    return found


def smaller(node: dict[str, object], devices: int, kind: str = "trn1.32xlarge") -> dict[str, object]:
    """The node as it came back: with fewer devices, or as another type."""
    offered = {**node["status"]["capacity"], DEVICES: str(devices), CORES: str(2 * devices)}  # type: ignore[index]
    status = {**node["status"], "capacity": offered, "allocatable": offered}  # type: ignore[dict-item]
    metadata = {**node["metadata"], "labels": {INSTANCE_LABEL: kind}}  # type: ignore[dict-item]
    return {**node, "metadata": metadata, "status": status}


def test_a_type_that_nobody_knows_is_told_and_grants_devices_singly_or_all_together(
    type_in: Type, tmp_path: Path
) -> None:
    unknown = smaller(a_node("n"), 16, "trn9.32xlarge")
    cluster = written(tmp_path / "cluster.yaml", unknown, a_pod("four", aws_neuron=4))
    said = type_in("explain", "pod", "lab/four", "--snapshot", cluster)
    assert "asked 4, which n never grants together; the nearest numbers that it does: 1 or 16" in said.out
    vetted = type_in("vet", "--snapshot", cluster)
    assert vetted.code == 1
    assert "HP736 warning: Node n: instance type trn9.32xlarge is not known" in vetted.out
    whole = written(tmp_path / "whole.yaml", a_pod("whole", aws_neuron=16))
    planned = type_in("plan", "-f", whole, "--snapshot", cluster)
    assert planned.code == 0
    assert "devices are granted one by one or all together" in planned.err


def test_numbers_by_hand_that_meet_are_held_by_both_and_told(type_in: Type, tmp_path: Path) -> None:
    pods = [
        aws_bound("one", "n", "0,1,2,3", aws_neuron=4),
        aws_bound("two", "n", "3,4,5,6", aws_neuron=4),
        aws_bound("half", "n", "16,17", aws_neuroncore=2),
        aws_bound("same", "n", "17", aws_neuroncore=1),
    ]
    cluster = written(tmp_path / "cluster.yaml", a_node("n"), *pods)
    assert (
        "n-AWSNeuron-3: 4 of 2 cores are promised, to lab/two as well"
        in type_in("explain", "pod", "lab/one", "--snapshot", cluster).out
    )
    said = type_in("vet", "--snapshot", cluster).out
    assert said.count("HP737 error: Node n: ") == 2
    assert "pod lab/one: n-AWSNeuron-3" in said
    assert "pod lab/half: n-AWSNeuron-8: 3 of 2 cores are promised, to lab/same as well" in said
    page = tmp_path / "page.html"
    four = written(tmp_path / "four.yaml", a_pod("four", aws_neuron=4))
    planned = type_in("plan", "-f", four, "--snapshot", cluster, "--html", page)
    assert "AWSNeuron #12-15" in planned.out


def test_one_core_for_two_pods_is_told_where_nothing_else_is_too_much(type_in: Type, tmp_path: Path) -> None:
    wide = a_node("n")
    wide["metadata"]["labels"][INSTANCE_LABEL] = "trn2.48xlarge"  # type: ignore[index]
    for each in ("capacity", "allocatable"):
        wide["status"][each] = {**wide["status"][each], CORES: "64"}  # type: ignore[index]
    pods = [aws_bound("one", "n", "4,5", aws_neuroncore=2), aws_bound("two", "n", "5", aws_neuroncore=1)]
    cluster = written(tmp_path / "cluster.yaml", wide, *pods)
    said = type_in("explain", "pod", "lab/two", "--snapshot", cluster)
    assert "its partition of n-AWSNeuron-1 is promised, to lab/one as well" in said.out


def test_numbers_that_no_device_or_core_has_are_told(type_in: Type, tmp_path: Path) -> None:
    devices = written(tmp_path / "a.yaml", a_node("n"), aws_bound("far", "n", "0,1,2,99", aws_neuron=4))
    assert "holds n-AWSNeuron-99, which its node does not report" in type_in("vet", "--snapshot", devices).out
    cores = written(tmp_path / "b.yaml", a_node("n"), aws_bound("far", "n", "31,32", aws_neuroncore=2))
    said = type_in("explain", "pod", "lab/far", "--snapshot", cores)
    assert "holds core 32, which node n does not report" in said.out
    assert "AWSNeuron #0-15" in said.out


def test_maps_of_awss_extension_that_are_half_written_are_told_with_what_repairs_them(
    type_in: Type, tmp_path: Path
) -> None:
    maps = {"NEURON_DEV_USAGE_MAP": "true,false", "NEURON_CORE_USAGE_MAP": ",".join(["true"] * 31 + ["x"])}
    cluster = written(tmp_path / "cluster.yaml", a_node("n", annotations=maps))
    said = type_in("vet", "--snapshot", cluster).out
    assert "NEURON_DEV_USAGE_MAP has 2 words, and the node has 16" in said
    assert "NEURON_CORE_USAGE_MAP has x, which is neither true nor false" in said
    assert "kubectl annotate node n NEURON_DEV_USAGE_MAP-" in said
    whole = {"NEURON_DEV_USAGE_MAP": ",".join(["false"] * 16), "NEURON_CORE_USAGE_MAP": ",".join(["true"] * 32)}
    assert type_in("vet", "--snapshot", written(tmp_path / "b.yaml", a_node("n", annotations=whole))).code == 0


def test_a_node_that_came_back_smaller_keeps_what_its_pods_hold_out_of_account_and_tells(
    type_in: Type, tmp_path: Path
) -> None:
    old = a_pod("old", "n", held(10, 11, 12, 13, 14, 15), aws_neuron=6)
    cluster = written(tmp_path / "cluster.yaml", smaller(a_node("n"), 12), old, a_pod("one", aws_neuron=1))
    said = type_in("vet", "--snapshot", cluster).out
    assert "the node has 12 devices, trn1.32xlarge has 16: devices are granted one by one or all together" in said
    assert "pod lab/old: holds n-AWSNeuron-12 and 3 more, which its node does not report" in said
    assert "fits now" in type_in("explain", "pod", "lab/one", "--snapshot", cluster).out


def test_a_node_that_came_back_as_another_type_is_wired_as_that(type_in: Type, tmp_path: Path) -> None:
    other = smaller(a_node("n"), 12, "inf2.48xlarge")
    cluster = written(
        tmp_path / "cluster.yaml",
        other,
        a_pod("old", "n", held(8, 9, 10, 11), aws_neuron=4),
        a_pod("six", aws_neuron=6),
    )
    said = type_in("explain", "pod", "lab/six", "--snapshot", cluster).out
    assert "n: AWSNeuron #0-5" in said
    assert "ring of 12" in said
    assert "a lab/six: 0-5" in said


def test_both_units_in_one_container_are_refused_wherever_the_pod_is_seen(type_in: Type, tmp_path: Path) -> None:
    both = written(tmp_path / "both.yaml", a_pod("both", aws_neuron=1, aws_neuroncore=2))
    cluster = written(tmp_path / "cluster.yaml", a_node("n"), a_pod("both", aws_neuron=1, aws_neuroncore=2))
    remedy = "keep one of the two: whole devices, or cores of a device"
    nodes = written(tmp_path / "nodes.yaml", a_node("n"))
    assert remedy in type_in("plan", "-f", both, "--snapshot", nodes).out
    assert remedy in type_in("explain", "pod", "lab/both", "--snapshot", cluster).out


def a_gang(members: int, devices: int, cpu: int = 1) -> dict[str, object]:
    asked = {DEVICES: devices, "cpu": cpu}
    container = {"name": "main", "image": "i", "resources": {"limits": asked, "requests": asked}}
    template = {"spec": {"containers": [container]}}
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "gang", "namespace": "lab"},
        "spec": {
            "schedulerName": "volcano",
            "minAvailable": members,
            "tasks": [{"name": "w", "replicas": members, "template": template}],
        },
    }


def on(node: str, *devices: int) -> str:
    return "".join(f"{node}-AWSNeuron-{device},AWSNeuron,0,3:" for device in devices) + ";"


def granted_to(type_in: Type, cluster: Path, job: Path) -> list[str]:
    """The devices of each member as the table has them."""
    said = type_in("plan", "-f", job, "--snapshot", cluster, "--no-headers", "--policy", "node=spread").out
    return sorted(line.split("#")[1].split()[0] for line in said.splitlines() if line.startswith("lab/gang-w-"))


def test_members_of_a_gang_get_the_same_devices_on_every_node(type_in: Type, tmp_path: Path) -> None:
    busy = {"a": (0, 1, 2, 3, 8, 9, 10, 11, 12), "b": (8, 9, 10, 11, 12), "c": (12,)}
    pods = [a_pod(f"on-{name}", name, on(name, *devices), aws_neuron=len(devices)) for name, devices in busy.items()]
    cluster = written(tmp_path / "cluster.yaml", *map(a_node, busy), *pods)
    job = written(tmp_path / "gang.yaml", a_gang(3, 4, cpu=100))
    assert granted_to(type_in, cluster, job) == ["4-7", "4-7", "4-7"]


def test_what_the_last_node_had_left_is_tried_on_the_others(type_in: Type, tmp_path: Path) -> None:
    pod = a_pod("busy", "b", on("b", 0, 1, 2, 3, *range(8, 16)), aws_neuron=12)
    cluster = written(tmp_path / "cluster.yaml", a_node("a"), a_node("b"), pod)
    job = written(tmp_path / "gang.yaml", a_gang(2, 4, cpu=100))
    said = type_in("plan", "-f", job, "--snapshot", cluster, "--policy", "node=spread", "--no-headers").out
    assert said.count("#4-7") == 2, said


def test_of_equal_nodes_the_one_that_has_the_same_devices_is_taken(type_in: Type, tmp_path: Path) -> None:
    pods = []
    for name, row in {"a": range(4, 8), "b": range(4), "c": range(4, 8)}.items():
        busy = [device for device in range(16) if device not in row]
        pods.append(a_pod(f"on-{name}", name, on(name, *busy), aws_neuron=12))
    cluster = written(tmp_path / "cluster.yaml", a_node("a"), a_node("b"), a_node("c"), *pods)
    job = written(tmp_path / "gang.yaml", a_gang(2, 4))
    said = type_in("plan", "-f", job, "--snapshot", cluster, "--no-headers").out
    assert said.count("#4-7") == 2, said


def test_members_on_one_node_get_different_devices_and_so_do_those_of_the_next(type_in: Type, tmp_path: Path) -> None:
    cluster = written(tmp_path / "cluster.yaml", a_node("a"), a_node("b"))
    job = written(tmp_path / "gang.yaml", a_gang(4, 8))
    assert granted_to(type_in, cluster, job) == ["0-7", "0-7", "8-15", "8-15"]


def test_a_member_that_cannot_have_the_same_devices_gets_others(type_in: Type, tmp_path: Path) -> None:
    pods = [
        a_pod("low", "a", on("a", *range(8)), aws_neuron=8),
        a_pod("high", "b", on("b", *range(8, 16)), aws_neuron=8),
    ]
    cluster = written(tmp_path / "cluster.yaml", a_node("a"), a_node("b"), *pods)
    job = written(tmp_path / "gang.yaml", a_gang(2, 8))
    assert granted_to(type_in, cluster, job) == ["0-7", "8-15"]
