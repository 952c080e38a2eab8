"""The cluster as it would be."""

from __future__ import annotations

import pytest

from hami_plugins.engine.intake import Rules
from hami_plugins.errors import ManifestError
from hami_plugins.plan import what_if
from hami_plugins.vendors import builtin
from tests.builders import a_device, a_node, a_record, a_snapshot
from tests.unit.plan.plans import holding

TWO = a_snapshot(holding(a_node("a"), a_record(name="web"), a_record(name="db")), a_node("b"))


def test_a_pod_that_is_left_out_gives_back_what_it_held() -> None:
    found = what_if.without(TWO, ["pod/default/web"])
    assert [record.name for record in found.nodes[0].pods] == ["db"]
    assert found.nodes[0].state.usage[0].memory == 1024


def test_a_node_that_is_left_out_is_gone() -> None:
    assert [entry.name for entry in what_if.without(TWO, ["node/a"]).nodes] == ["b"]


def test_several_can_be_left_out() -> None:
    assert what_if.without(TWO, ["pod/default/web", "pods/default/db"]).nodes[0].pods == ()


@pytest.mark.parametrize(
    ("name", "why"),
    [
        pytest.param("pod/default/wep", "no such pod .*is it default/web", id="unknown pod"),
        pytest.param("node/c", "no such node", id="unknown node"),
        pytest.param("web", "write pod/<namespace>/<name>", id="bare name"),
        pytest.param("pod/web", "write pod/<namespace>/<name>", id="no namespace"),
    ],
)
def test_what_is_not_there_cannot_be_left_out(name: str, why: str) -> None:
    with pytest.raises(ManifestError, match=why):
        what_if.without(TWO, [name])


def test_nodes_of_a_shape_are_added() -> None:
    found = what_if.with_nodes(TWO, ["h100x8=2"], builtin())
    assert [entry.name for entry in found.nodes] == ["a", "added-h100x8-0", "added-h100x8-1", "b"]
    assert len(found.nodes[1].ids) == 8


@pytest.mark.parametrize(
    ("running", "publishers"),
    [
        pytest.param(["NVIDIA"], {"NVIDIA"}, id="HAMi's"),
        pytest.param(["Volcano-vGPU"], {"Volcano-vGPU"}, id="Volcano's"),
        pytest.param(["Koordinator"], {"Koordinator"}, id="Koordinator's"),
        pytest.param(["NVIDIA", "Volcano-vGPU"], {"NVIDIA"}, id="both"),
        pytest.param([], {"NVIDIA"}, id="nobody's"),
    ],
)
def test_added_nodes_run_the_agent_that_the_cluster_runs(running: list[str], publishers: set[str]) -> None:
    cluster = a_snapshot(*(a_node(f"n{at}", a_device(vendor=name)) for at, name in enumerate(running)))
    added = what_if.with_nodes(cluster, ["l40sx4=1"], builtin())
    assert set(next(each for each in added.nodes if each.name == "added-l40sx4-0").state.shape.positions) == publishers


def test_no_words_add_no_nodes() -> None:
    assert what_if.with_nodes(TWO, [], builtin()) is TWO


def test_an_added_node_does_not_replace_one_of_its_name() -> None:
    with pytest.raises(ManifestError, match="has a node added-t4x1-0 already"):
        what_if.with_nodes(a_snapshot(a_node("added-t4x1-0")), ["t4x1"], builtin())


def test_policies_are_defaults_for_both_dialects() -> None:
    policies = what_if.with_policy(Rules(), "node=spread, device=spread").policies
    assert (policies.node, policies.device, policies.volcano) == ("spread", "spread", "spread")


def test_a_device_policy_that_volcano_lacks_is_hamis_alone() -> None:
    policies = what_if.with_policy(Rules(), "device=numa").policies
    assert (policies.device, policies.volcano) == ("numa", "binpack")


def test_no_words_change_no_policy() -> None:
    assert what_if.with_policy(Rules(), "") == Rules()


@pytest.mark.parametrize(
    ("words", "why"),
    [
        pytest.param("spread", "write node= or device=", id="no key"),
        pytest.param("node=tight", "node= takes binpack, spread", id="unknown policy"),
        pytest.param("card=spread", "write node=<policy> or device=<policy>", id="unknown key"),
    ],
)
def test_an_unknown_policy_is_refused_with_the_known_ones(words: str, why: str) -> None:
    with pytest.raises(ManifestError, match=why):
        what_if.with_policy(Rules(), words)
