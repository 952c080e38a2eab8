"""Plans, explanations and findings about Neuron pods, with the vendor that the pack plugs in."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hami_plugins.cli.kit import plugins
from neuron_topology.core.names import INSTANCE_LABEL, LEGACY_DEVICES
from neuron_topology.core.nodes import FAMILY_LABEL, HEALTH_KEY
from neuron_topology.core.sets.families import Family
from neuron_topology.core.vendor import SPEC
from tests.unit.cli.conftest import Type
from tests.unit.cli.linked import a_node, a_pod, held, written

pytestmark = pytest.mark.usefixtures("packs_vendors")

POWERS, POOL = "ask for 1, 4, 8 or 16 devices", f"{FAMILY_LABEL}={Family.LINKED}"


def test_the_packs_vendor_takes_the_place_of_hamis() -> None:
    assert list(plugins.vendors()) == [SPEC]


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


def test_cores_that_are_more_devices_than_there_are_are_told_in_both(type_in: Type, tmp_path: Path) -> None:
    pods = written(tmp_path / "pods.yaml", a_pod("cores", aws_neuroncore=64), a_pod("held", aws_neuron=16))
    said = type_in("plan", "-f", pods, "--snapshot", written(tmp_path / "cluster.yaml", a_node("n")))
    assert "linked devices: asked 64 cores, 32 devices, which n never allocates together" in said.out
    assert "16 x all 2 cores" in said.out
    assert "card" not in said.out


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


def test_programs_are_told_the_nearest_set_and_its_holders(type_in: Type, tmp_path: Path) -> None:
    column = a_pod("column", "n", held(0, 4, 8, 12), aws_neuron=4)
    cluster = written(tmp_path / "cluster.yaml", a_node("n"), column, a_pod("four", aws_neuron=4), a_pod("x", cpu=999))
    told = json.loads(type_in("explain", "pod", "lab/four", "--snapshot", cluster, "-o", "json").out)
    (reason,) = told["pending"]["reasons"]
    assert reason["nearest"] == {
        "node": "n",
        "devices": [0, 1, 2, 3],
        "holders": [{"pod": "lab/column", "devices": [0]}],
    }
    other = json.loads(type_in("explain", "pod", "lab/x", "--snapshot", cluster, "-o", "json").out)
    assert [each["nearest"] for each in other["pending"]["reasons"]] == [None]


def test_two_pods_are_offered_together_where_no_single_one_would_do(type_in: Type, tmp_path: Path) -> None:
    pods = [a_pod(f"p{at}", "n", held(at, at + 8), aws_neuron=2) for at in range(8)]
    cluster = written(tmp_path / "cluster.yaml", a_node("n"), *pods, a_pod("waits", aws_neuron=4))
    said = type_in("explain", "pod", "lab/waits", "--snapshot", cluster)
    assert "fits with one more node" in said.out
    four = [a_pod(f"q{at}", "n", held(at * 2, at * 2 + 1), aws_neuron=2) for at in range(8)]
    cluster = written(tmp_path / "cluster.yaml", a_node("n"), *four, a_pod("waits", aws_neuron=4))
    said = type_in("explain", "pod", "lab/waits", "--snapshot", cluster)
    assert "without pod lab/q0, which holds 4 cores on 2 devices and without pod lab/q1" in said.out


def test_the_label_of_the_other_family_is_offered_where_it_helps_alone(type_in: Type, tmp_path: Path) -> None:
    column = a_pod("column", "n", held(0, 4, 8, 12), aws_neuron=4)
    waiting = ((a_pod("waits", aws_neuron=4), True), (a_pod("waits", aws_neuroncore=8), False))
    for waits, helps in (*waiting, (a_pod("waits", aws_neuron=13), False)):
        cluster = written(tmp_path / "cluster.yaml", a_node("n"), column, waits)
        said = type_in("explain", "pod", "lab/waits", "--snapshot", cluster)
        assert ("fits with the label hami-plugins.io/neuron-sets=linked on node n" in said.out) is helps, said.out
        assert ("would have one" in said.out) is helps, said.out


def test_a_plan_draws_the_nodes_of_allocated_sets(type_in: Type, tmp_path: Path) -> None:
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
    assert "the nearest supported: 4 or 8" in said.out
    assert "asked 7, which n never allocates together; the nearest numbers that it does: 4 or 8" in said.out


def test_the_old_name_is_not_offered_by_todays_plugin(type_in: Type, tmp_path: Path) -> None:
    cluster = written(tmp_path / "cluster.yaml", a_node("n"), a_pod("old", aws_neurondevice=16))
    said = type_in("explain", "pod", "lab/old", "--snapshot", cluster)
    assert said.code == 1
    assert f"Insufficient {LEGACY_DEVICES}" in said.out
    old = written(tmp_path / "old.yaml", a_pod("old", aws_neurondevice=16))
    assert "AWS's plugin no longer offers this name" in type_in("vet", "-f", old).out
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
    assert (
        "the webhook refuses aws.amazon.com/neuron=1, aws.amazon.com/neuroncore=2: aws.amazon.com/neuroncore"
        in said.out
    )
    assert "\n    fix: keep one of the two: whole devices, or cores of a device\n" in said.out


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


@pytest.mark.parametrize(
    ("selected", "code", "words"),
    [
        ({}, 1, f"(Inferentia does, linked node pools do)\n    fix: {POWERS}, or select inf"),
        (
            {INSTANCE_LABEL: "trn1.32xlarge"},
            1,
            f"(linked node pools do)\n    fix: {POWERS}, or select a node pool with {POOL}",
        ),
        ({INSTANCE_LABEL: "trn1.32xlarge", FAMILY_LABEL: "linked"}, 0, "no findings"),
        ({INSTANCE_LABEL: "trn1.32xlarge", FAMILY_LABEL: "aws"}, 1, "error: Pod lab/pair, container main"),
    ],
)
def test_vet_knows_without_a_cluster_that_linked_pools_allocate_other_counts(
    type_in: Type, tmp_path: Path, selected: dict[str, str], code: int, words: str
) -> None:
    pod = a_pod("pair", aws_neuron=2)
    pod["spec"] = {**pod["spec"], "nodeSelector": selected}  # type: ignore[dict-item]
    said = type_in("vet", "-f", written(tmp_path / "pair.yaml", pod))
    assert (said.code, words in said.out) == (code, True)
    assert ("HP309" in said.out) is (words != "no findings")


def test_devices_of_neuron_are_called_devices_on_the_page_and_beside_cards_all_are_cards(
    type_in: Type, tmp_path: Path
) -> None:
    cluster, page = written(tmp_path / "cluster.yaml", a_node("n")), tmp_path / "plan.html"
    four = written(tmp_path / "four.yaml", a_pod("four", aws_neuron=4))
    assert "   DEVICES   " in type_in("plan", "-f", four, "--snapshot", cluster, "--html", page).out
    text = page.read_text(encoding="utf-8")
    assert '<th scope="col">Devices</th>' in text
    assert "Nodes and devices</h2>" in text
    gpu: dict[str, int | str] = {"nvidia.com/gpu": 1}
    mixed = written(tmp_path / "mixed.yaml", a_pod("four", aws_neuron=4), a_pod("gpu", "", "", **gpu))
    assert "   CARDS" in type_in("plan", "-f", mixed, "--snapshot", cluster).out
