"""Costs per hour, each reproduced by hand: 21.50 for a trn1.32xlarge, 21.957642 for a p4d, 55.04 for a p5."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
import yaml

from hami_plugins import examples
from hami_plugins.errors import ManifestError
from hami_plugins.inputs import manifests, prices, workloads
from hami_plugins.inputs.list_reader import snapshot_of
from hami_plugins.inputs.prices import PriceTable
from hami_plugins.model.node_pools import Offering
from hami_plugins.output import costs
from hami_plugins.plan import Plan, Planner, submission
from hami_plugins.plan import costs as plan_costs
from hami_plugins.plan.what_if import with_nodes
from hami_plugins.vendors import builtin
from tests import pool_objects
from tests.pool_objects import TYPE

REGISTRY = builtin()
SHIPPED = prices.parse(examples.price_text("aws-us-east-1"), source="aws-us-east-1")


def planned(*pods: dict[str, Any], add: str = "trn1.32xlarge=2") -> Plan:
    """The pods on new nodes."""
    text = yaml.safe_dump_all(pods)
    read = workloads.read(manifests.read(text, source="test"), pod_groups={})
    snapshot = with_nodes(snapshot_of([pool_objects.a_plain_node()], REGISTRY), [add], REGISTRY)
    return Planner(REGISTRY).plan(snapshot, submission.units(read, snapshot))


def amount(plan: Plan) -> str:
    return f"{plan_costs.of_pods(plan, SHIPPED).amount:.4f}"


def test_a_job_costs_the_nodes_whose_devices_it_holds() -> None:
    """Two whole machines: 2 x 21.50."""
    assert amount(planned(pool_objects.a_waiting_pod("a"), pool_objects.a_waiting_pod("b"))) == "43.0000"


def test_a_part_of_a_machine_costs_its_part() -> None:
    """4 of 16 devices: 21.50 / 4; a part of one of 8 cards that holds 8,192 of 81,920 MiB: 27.44705 / 80."""
    assert amount(planned(pool_objects.a_waiting_pod(devices=4))) == "5.3750"
    slice_of_card = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "8192"}
    pod = pool_objects.a_waiting_pod(devices=0, limits=slice_of_card)
    assert amount(planned(pod, add="a100-80x8=1")) == "0.3431"


def test_pods_that_are_not_placed_and_pods_without_devices_cost_nothing() -> None:
    plain = pool_objects.a_waiting_pod("plain", devices=0, limits={"cpu": "1"}, nodeSelector={TYPE: "m5.xlarge"})
    refused = pool_objects.a_waiting_pod("refused", nodeSelector={"no": "node"})
    cost = plan_costs.of_pods(planned(plain, refused), SHIPPED)
    assert (cost.amount, cost.unpriced) == (Decimal(0), ())


def test_types_without_a_price_are_named_and_not_counted() -> None:
    plan = planned(pool_objects.a_waiting_pod("a", devices=16), add="trn2.48xlarge=1")
    cost = plan_costs.of_pods(plan, SHIPPED)
    assert (cost.amount, cost.unpriced) == (Decimal(0), ("trn2.48xlarge",))
    words = costs.words(cost, "the placed pods", SHIPPED)
    assert words == (
        "cost of the placed pods: 0.00 USD/h (us-east-1, 2026-07-20); no price of trn2.48xlarge: add it to a table of "
        "your own, and give that with --prices"
    )


def test_added_nodes_cost_their_prices() -> None:
    """2 x 21.50 + 55.04; the node without devices is of a type that the table does not have."""
    plan = planned(add="trn1.32xlarge=2,h100x8=1")
    cost = plan_costs.of_nodes(plan.before.nodes, SHIPPED)
    assert (cost.amount, cost.unpriced) == (Decimal("98.04"), ("m5.xlarge",))
    nameless = pool_objects.a_plain_node()
    del nameless["metadata"]["labels"][TYPE]
    unlabelled = plan_costs.of_nodes(snapshot_of([nameless], REGISTRY).nodes, SHIPPED)
    assert unlabelled.unpriced == ("no instance type",)
    document = costs.plan_document(plan, plan.before.nodes, SHIPPED)
    assert (document["placedPodsPerHour"], document["addedNodesPerHour"]) == ("0.00", "98.04")
    assert (document["currency"], document["unpriced"]) == ("USD", ["m5.xlarge"])


def test_trainium_is_compared_with_gpus_by_instance_and_by_device() -> None:
    """21.957642 / 21.5 = 1.0213, 55.04 / 21.5 = 2.56; 21.5 / 16 = 1.34375, 55.04 / 8 = 6.88."""
    rows = costs.rows(SHIPPED, ("trn1.32xlarge", "p4d.24xlarge", "p5.48xlarge"))
    assert [row.cells for row in costs.table(rows).rows] == [
        ("trn1.32xlarge", "16", "21.5000", "1.3438", "-"),
        ("p4d.24xlarge", "8", "21.9576", "2.7447", "+2.1 %"),
        ("p5.48xlarge", "8", "55.0400", "6.8800", "+156.0 %"),
    ]
    (first, *_, last) = costs.document(SHIPPED, rows)["instanceTypes"]
    assert (first["perHour"], first["againstFirstPercent"]) == ("21.5", None)
    assert (last["perDeviceHour"], last["againstFirstPercent"]) == ("6.880000", "156.0")


def test_all_types_are_listed_without_comparison() -> None:
    table = costs.table(costs.rows(SHIPPED, ()))
    assert table.columns == ("TYPE", "DEVICES", "PER HOUR", "PER DEVICE")
    assert ("inf1.xlarge", "-", "0.2280", "-") in [row.cells for row in table.rows]


def test_a_table_of_ones_own_wins_with_its_currency() -> None:
    text = "kind: Prices\ncurrency: EUR\nperHour: {trn1.32xlarge: 10}\n"
    own = prices.parse(text, source="own")
    assert own.of(Offering("trn1.32xlarge"), 3) == 30
    assert (own.of(Offering("p5.48xlarge")), own.shown(Decimal(1234))) == (None, "1,234.00 EUR/h")
    assert costs.words(plan_costs.of_nodes((), own), "the added nodes", own) == "cost of the added nodes: 0.00 EUR/h"
    free = PriceTable(per_hour={Offering("a"): Decimal(0), Offering("b"): Decimal(1)})
    assert costs.rows(free, ("a", "b"))[1].against is None


OWN = prices.parse(
    "perHour: {trn1.32xlarge: {on-demand: 20, spot: 8, capacity-block: 12}, trn2.48xlarge: {spot: 9}}", source="own"
)


@pytest.mark.parametrize(
    ("labels", "costs_per_hour"),
    [
        ({}, 20),
        ({"karpenter.sh/capacity-type": "on-demand"}, 20),
        ({"karpenter.sh/capacity-type": "spot"}, 8),
        ({"karpenter.sh/capacity-type": "reserved"}, 20),
        ({"karpenter.k8s.aws/capacity-reservation-type": "default"}, 20),
        ({"karpenter.k8s.aws/capacity-reservation-type": "capacity-block"}, 12),
        ({"eks.amazonaws.com/capacityType": "ON_DEMAND"}, 20),
        ({"eks.amazonaws.com/capacityType": "SPOT"}, 8),
        ({"eks.amazonaws.com/capacityType": "CAPACITY_BLOCK"}, 12),
        ({"hami-plugins.io/capacity-block-end": "1790000000"}, 12),
    ],
)
def test_a_node_costs_what_its_capacity_is_bought_for(labels: dict[str, str], costs_per_hour: int) -> None:
    node = pool_objects.a_trn1_node()
    node["metadata"]["labels"] |= labels
    found = plan_costs.of_nodes(snapshot_of([node], REGISTRY).nodes, OWN)
    assert (found.amount, found.unpriced) == (Decimal(costs_per_hour), ())


def test_spot_is_not_counted_at_the_price_on_demand() -> None:
    node = pool_objects.a_trn1_node()
    node["metadata"]["labels"]["karpenter.sh/capacity-type"] = "spot"
    found = plan_costs.of_nodes(snapshot_of([node], REGISTRY).nodes, SHIPPED)
    assert (found.amount, found.unpriced) == (Decimal(0), ("trn1.32xlarge (spot)",))


def test_all_prices_of_a_type_are_compared() -> None:
    """8 / 20 = 0.4, 12 / 20 = 0.6, 9 / 20 = 0.45."""
    rows = costs.rows(OWN, ("trn1.32xlarge", "trn2.48xlarge"))
    assert [(row.cells[0], row.cells[-1]) for row in costs.table(rows).rows] == [
        ("trn1.32xlarge", "-"),
        ("trn1.32xlarge (spot)", "-60.0 %"),
        ("trn1.32xlarge (capacity-block)", "-40.0 %"),
        ("trn2.48xlarge (spot)", "-55.0 %"),
    ]
    listed = costs.document(OWN, rows)["instanceTypes"]
    assert [(each["name"], each["capacityType"]) for each in listed[1:3]] == [
        ("trn1.32xlarge", "spot"),
        ("trn1.32xlarge", "capacity-block"),
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("perHour: {a: -1}", "perHour.a: '-1' is not a price per hour such as 21.50"),
        ("perHour: {a: {spot: dear}}", "perHour.a.spot: 'dear' is not a price per hour such as 21.50"),
        (
            "perHour: {a: {reserved: 1}}",
            "perHour.a.reserved: means nothing here; known are on-demand, spot, capacity-block",
        ),
        ("perHour: {a: {}}", "perHour.a: a has no price; write a number, or {spot: 9.10}"),
        ("perHour: {a: [1]}", "perHour.a: '[1]' is not a price per hour such as 21.50"),
        ("perHour: {}", "a price table needs prices; write perHour: {trn1.32xlarge: 21.50}"),
        ("hourly: {a: 1}", "hourly: means nothing here; known are"),
        ("perHour: {a: 1}\n---\nperHour: {a: 1}", "own: a price table is one document, this has 2"),
    ],
)
def test_a_mistake_in_a_table_is_told_with_its_place(text: str, words: str) -> None:
    with pytest.raises(ManifestError) as error:
        prices.parse(text, source="own")
    assert words in str(error.value)
