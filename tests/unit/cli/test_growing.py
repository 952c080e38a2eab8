"""``plan`` and ``explain`` with pools and prices, and ``prices``, as one types them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tests import pool_objects
from tests.schema import published
from tests.unit.cli.conftest import Type


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    """A cluster with a pool, no node of it, and a pod that waits."""
    items = [pool_objects.a_plain_node(), pool_objects.a_node_pool(limits={"nodes": "4"}), pool_objects.a_waiting_pod()]
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps({"kind": "List", "items": items}), encoding="utf-8")
    return path


@pytest.fixture
def job(tmp_path: Path) -> Path:
    path = tmp_path / "job.yaml"
    path.write_text(yaml.safe_dump(pool_objects.a_waiting_pod("new")), encoding="utf-8")
    return path


def test_a_plan_tells_of_pools_and_what_their_nodes_cost(type_in: Type, dump: Path, job: Path) -> None:
    said = type_in("plan", "-f", job, "--snapshot", dump, "--prices", "aws-us-east-1")
    assert said.code == 1
    assert "  -> fits after 1 more trn1.32xlarge of NodePool trn, limit 4, 21.50 USD/h\n" in said.out
    assert said.out.endswith("cost of the placed pods: 0.00 USD/h (us-east-1, 2026-07-20)\n")


def test_added_nodes_are_priced_as_well(type_in: Type, dump: Path, job: Path) -> None:
    asked = ("plan", "-f", job, "--snapshot", dump, "--add-nodes", "trn1.32xlarge=2", "--prices", "aws-us-east-1")
    said = type_in(*asked)
    assert said.code == 0
    assert "cost of the placed pods: 21.50 USD/h (us-east-1, 2026-07-20)\n" in said.out
    assert "cost of the added nodes: 43.00 USD/h (us-east-1, 2026-07-20)\n" in said.out
    cost = published(type_in(*asked, "-o", "json").out)["cost"]
    assert (cost["placedPodsPerHour"], cost["addedNodesPerHour"]) == ("21.50", "43.00")
    assert published(type_in(*asked[:-2], "-o", "json").out)["cost"] is None


def test_a_group_without_nodes_is_told_by_a_file(type_in: Type, dump: Path, job: Path, tmp_path: Path) -> None:
    group = tmp_path / "group.json"
    group.write_text(json.dumps(pool_objects.a_managed_group(taints=[])), encoding="utf-8")
    said = type_in("plan", "-f", job, "--snapshot", dump, "--node-groups", group)
    assert "-> fits after 1 more trn1.32xlarge of node group ng1, limit 4" in said.out
    waiting = type_in("explain", "pod", "p", "--snapshot", dump, "--node-groups", group, "--prices", "aws-us-east-1")
    assert "-> fits after 1 more trn1.32xlarge of node group ng1, limit 4, 21.50 USD/h" in waiting.out
    answer = published(type_in("explain", "pod", "p", "--snapshot", dump, "-o", "json").out)
    assert [each["pool"] for each in answer["pending"]["growth"]] == ["trn"]


def test_a_snapshot_has_the_pools(type_in: Type, dump: Path, job: Path, tmp_path: Path) -> None:
    taken = tmp_path / "snapshot.json"
    taken.write_text(type_in("snapshot", "--snapshot", dump).out, encoding="utf-8")
    said = type_in("plan", "-f", job, "--snapshot", taken)
    assert "-> fits after 1 more trn1.32xlarge of NodePool trn, limit 4" in said.out


def test_types_are_compared_by_what_they_cost(type_in: Type) -> None:
    said = type_in("prices", "trn1.32xlarge", "p4d.24xlarge", "p5.48xlarge")
    assert said.code == 0
    assert [line.split()[-2:] for line in said.out.splitlines()[2:4]] == [["+2.1", "%"], ["+156.0", "%"]]
    assert said.out.endswith("\nUSD per hour (us-east-1, 2026-07-20)\n")
    listed = published(type_in("prices", "-o", "json").out)
    assert {"name": "trn1.32xlarge", "devices": 16}.items() <= listed["instanceTypes"][1].items()


def test_a_table_of_ones_own_is_taken_in_place_of_the_shipped_one(type_in: Type, tmp_path: Path) -> None:
    own = tmp_path / "prices.yaml"
    own.write_text("kind: Prices\nperHour: {trn1.32xlarge: 12.8}\n", encoding="utf-8")
    assert "trn1.32xlarge   16        12.8000    0.8000\nUSD per hour\n" in type_in("prices", "--prices", own).out
    missing = type_in("prices", "p5.48xlarge", "--prices", own)
    assert missing.code == 2
    assert f"{own} has no price of p5.48xlarge; it has trn1.32xlarge; add it to a table of your own" in missing.err
    nothing = type_in("prices", "--prices", "aws-us-east-2")
    assert nothing.code == 2
    assert "--prices aws-us-east-2: no such file, and the shipped price tables are aws-us-east-1" in nothing.err
