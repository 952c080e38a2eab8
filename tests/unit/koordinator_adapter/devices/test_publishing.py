"""What is written of a node's Device object, and when nothing is."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from hami_plugins.wire.koordinator import MEMORY
from hami_plugins.wire.koordinator_devices import MODEL_LABEL, VENDOR_LABEL
from koordinator_adapter.core.devices.publication import CreateObject, KeepObject, UpdateObject, contested, is_ours
from koordinator_adapter.core.devices.wanted import PUBLISHER, PUBLISHER_LABEL
from tests.unit.koordinator_adapter.devices.nodes import (
    LATER,
    NOW,
    REGISTER,
    a_node,
    card,
    devices,
    planned,
    published,
)

TWO = a_node(card(0), card(1))


def stored(body: dict[str, Any]) -> dict[str, Any]:
    """The object as an API server gives it back."""
    found = copy.deepcopy(body)
    found["metadata"] |= {"resourceVersion": "3", "uid": "u", "managedFields": [{"manager": "adapter"}]}
    return found


def test_what_has_been_written_is_not_written_again() -> None:
    body = published(TWO)
    assert planned(TWO, stored(body), now=LATER).step == KeepObject()
    ill = a_node(card(0), card(1, health=False))
    again = published(ill, stored(body))
    assert planned(ill, stored(again), now=LATER).step == KeepObject()


def test_amounts_may_be_spelled_otherwise_by_who_stores_them() -> None:
    live = stored(published(TWO))
    assert live["spec"]["devices"][0]["resources"][MEMORY] == "40Gi"
    live["spec"]["devices"][0]["resources"][MEMORY] = "41943040Ki"
    assert planned(TWO, live).step == KeepObject()


def test_a_change_holds_only_for_the_version_that_was_read() -> None:
    live = stored(published(TWO))
    step = planned(a_node(card(0)), live).step
    assert isinstance(step, UpdateObject)
    assert step.body["metadata"]["resourceVersion"] == "3"
    assert "managedFields" not in step.body["metadata"]


def test_the_time_of_an_illness_is_when_it_began() -> None:
    ill = published(a_node(card(0, health=False)), now=NOW)
    (said,) = devices(ill)["GPU-0"]["conditions"]
    assert said["lastTransitionTime"] == NOW
    worse = published(a_node(card(0, health=False), card(1)), stored(ill), now=LATER)
    assert devices(worse)["GPU-0"]["conditions"] == [said]


def test_a_card_that_is_gone_stays_while_somebody_holds_its_number() -> None:
    live = stored(published(TWO))
    held = devices(published(a_node(card(1)), live, held=frozenset({0})))
    assert (held["GPU-0"]["health"], held["GPU-0"]["conditions"][0]["reason"]) == (False, "Vanished")
    assert set(devices(published(a_node(card(1)), live))) == {"GPU-1"}


def test_a_new_card_does_not_get_the_number_of_one_that_is_held() -> None:
    live = stored(published(TWO))
    swapped = a_node(card(1), card(0, id="GPU-new"))
    assert devices(published(swapped, live, held=frozenset({0})))["GPU-new"]["minor"] == 2
    assert devices(published(swapped, live))["GPU-new"]["minor"] == 0


def test_nobody_forgets_numbers_while_an_agent_starts_anew() -> None:
    live = stored(published(a_node(card(5), card(2))))
    silent = published(a_node(), live)
    assert {name: each["minor"] for name, each in devices(silent).items()} == {"GPU-2": 2, "GPU-5": 5}
    assert not any(each["health"] for each in devices(silent).values())
    assert silent["metadata"]["labels"] == live["metadata"]["labels"]
    back = published(a_node(card(5, index=0), card(2, index=1)), stored(silent))
    assert {name: each["minor"] for name, each in devices(back).items()} == {"GPU-2": 2, "GPU-5": 5}


def test_an_object_of_somebody_elses_is_left_with_the_way_to_change_that() -> None:
    live = stored(published(TWO))
    live["metadata"]["labels"] = {VENDOR_LABEL: "nvidia"}
    live["metadata"]["managedFields"] = [{"manager": "koordlet"}, "nonsense"]
    step = planned(TWO, live).step
    assert isinstance(step, KeepObject)
    assert "(koordlet)" in step.why
    assert "kubectl delete devices.scheduling.koordinator.sh n" in step.why
    assert planned(a_node(), live).step == KeepObject()


@pytest.mark.parametrize("live", [None, {"metadata": {"labels": {PUBLISHER_LABEL: PUBLISHER}, "name": "n"}}])
def test_a_node_whose_koordlet_reports_cards_is_left(live: Any) -> None:
    step = planned(TWO, live, reported=True).step
    assert isinstance(step, KeepObject)
    assert "Accelerators" in step.why


@pytest.mark.parametrize("metadata", [None, {}, {"labels": None}, {"labels": {PUBLISHER_LABEL: "x"}}, "x"])
def test_what_has_no_label_of_ours_is_not_ours(metadata: Any) -> None:
    assert not is_ours({"metadata": metadata})


def test_an_object_that_says_nothing_readable_is_written_whole() -> None:
    live = stored(published(TWO))
    live["spec"] = {"devices": 3}
    body = published(TWO, live)
    assert set(devices(body)) == {"GPU-0", "GPU-1"}


def test_a_half_written_device_is_written_whole_with_its_number() -> None:
    live = stored(published(TWO))
    del live["spec"]["devices"][1]["health"]
    live["spec"]["devices"][0] = {"type": "gpu", "id": "GPU-0"}
    found = devices(published(TWO, live))
    assert {name: each["minor"] for name, each in found.items()} == {"GPU-0": 0, "GPU-1": 1}
    assert all(each["health"] for each in found.values())


def test_a_node_that_was_made_anew_owns_its_object() -> None:
    live = stored(published(TWO))
    live["metadata"]["ownerReferences"] = [
        {"kind": "Node", "name": "n", "uid": "old"},
        {"kind": "ConfigMap", "name": "theirs"},
    ]
    owners = published(TWO, live)["metadata"]["ownerReferences"]
    assert [(each["kind"], each.get("uid")) for each in owners] == [("Node", "uid-n"), ("ConfigMap", None)]
    live["metadata"]["ownerReferences"] = "nonsense"
    assert len(published(TWO, live)["metadata"]["ownerReferences"]) == 1


def test_a_node_without_cards_gets_no_object() -> None:
    assert planned(a_node()).step == KeepObject()
    assert isinstance(planned(TWO).step, CreateObject)


def test_labels_of_maker_and_model_are_those_of_the_first_card() -> None:
    labels = published(a_node(card(1, type="NVIDIA-NVIDIA T4"), card(0)))["metadata"]["labels"]
    assert (labels[VENDOR_LABEL], labels[MODEL_LABEL]) == ("nvidia", "NVIDIA-A100")


def test_an_id_that_is_no_value_of_a_label_is_no_label() -> None:
    body = published(a_node(card(0, id="GPU/0"), card(1, id="G" * 80)))
    assert all("gpu-uuid" not in each["labels"] for each in body["spec"]["devices"])
    assert [each["id"] for each in body["spec"]["devices"]] == ["GPU/0", "G" * 80]


def test_cards_for_which_there_is_no_number_are_told() -> None:
    plan = planned(a_node(*map(card, range(64))))
    assert "63" in plan.remarks[0]
    assert isinstance(plan.step, CreateObject)
    assert len(plan.step.body["spec"]["devices"]) == 63


def test_a_register_that_cannot_be_read_takes_no_card_out_of_service() -> None:
    live = stored(published(a_node(card(0), card(1, health=False)), now=NOW))
    unreadable = planned(a_node(**{REGISTER: "[{"}), live, now=LATER)
    assert unreadable.step == KeepObject()
    assert REGISTER in unreadable.remarks[0]


def test_cards_of_a_second_maker_take_no_card_of_the_first_out_of_service() -> None:
    live = stored(published(TWO))
    both = a_node(card(0), card(1), **{"hami.io/node-dcu-register": "DCU-0,4,16384,100,DCU-Z100,0,true,0,:"})
    plan = planned(both, live, now=LATER)
    assert plan.step == KeepObject()
    assert "dcu and nvidia" in plan.remarks[0]


def test_a_card_that_had_vanished_stays_so_while_a_register_cannot_be_read() -> None:
    live = stored(published(a_node(card(1)), stored(published(TWO)), held=frozenset({0})))
    assert planned(a_node(**{REGISTER: "[{"}), live, held=frozenset({0}), now=LATER).step == KeepObject()


NIC = {
    "type": "rdma",
    "id": "0000:09:00.0",
    "minor": 0,
    "moduleID": 4,
    "health": True,
    "resources": {"koordinator.sh/rdma": "100"},
    "vfGroups": [{"labels": {"type": "general"}, "vfs": [{"minor": -1, "busID": "0000:09:00.2"}]}],
}
UNKNOWN = {"type": "rdma", "minor": 1, "resources": {"koordinator.sh/rdma": "abc"}}
WITHOUT_NUMBER = {"type": "fpga", "health": True}


def test_devices_of_others_keep_all_that_stands_there_also_what_cannot_be_read() -> None:
    live = stored(published(TWO))
    live["spec"]["devices"] = [NIC, *live["spec"]["devices"], UNKNOWN]
    assert planned(TWO, live, now=LATER).step == KeepObject()
    ill = published(a_node(card(0, health=False), card(1)), live)
    assert [each for each in ill["spec"]["devices"] if each["type"] != "gpu"] == [NIC, UNKNOWN]
    assert not devices(ill)["GPU-0"]["health"]


def test_a_device_without_a_number_is_taken_out_because_it_ends_the_scheduler() -> None:
    live = stored(published(TWO))
    live["spec"]["devices"] += [WITHOUT_NUMBER, NIC]
    body = published(TWO, live)
    assert [each for each in body["spec"]["devices"] if each["type"] != "gpu"] == [NIC]
    assert planned(TWO, stored(body), now=LATER).step == KeepObject()


def test_a_number_that_is_no_place_any_more_is_told_because_the_hook_shows_cards_by_number() -> None:
    live = stored(published(TWO))
    assert planned(TWO, live).remarks == ()
    swapped = planned(a_node(card(1), card(0, id="GPU-new")), live, held=frozenset({0}))
    assert "GPU-new has number 2 and is in place 0" in swapped.remarks[0]
    assert "kubectl delete devices.scheduling.koordinator.sh n" in swapped.remarks[0]
    renumbered = planned(a_node(card(0, index=1), card(1, index=0)), live)
    assert "GPU-0 has number 0 and is in place 1, GPU-1 has number 1 and is in place 0" in renumbered.remarks[0]


def test_places_that_a_register_does_not_tell_are_no_other_places() -> None:
    silent = [{name: value for name, value in card(at).items() if name != "index"} for at in range(2)]
    assert [each["minor"] for each in devices(published(a_node(*silent))).values()] == [0, 1]
    assert planned(a_node(*silent)).remarks == ()


def test_no_two_cards_are_said_to_share_a_switch_of_which_nobody_tells() -> None:
    body = published(a_node(card(0), card(1), card(2, numa=1)))
    places = [each["topology"] for each in body["spec"]["devices"]]
    assert len({place["pcieID"] for place in places}) == 3
    assert [place["nodeID"] for place in places] == [0, 0, 1]


def test_who_changes_or_deletes_our_object_again_and_again_is_named() -> None:
    changed = contested("n1", {"metadata": {"managedFields": [{"manager": "koordlet"}, {"manager": "adapter"}]}})
    assert changed.startswith("node n1: another client (adapter, koordlet) changes its Device object after each write")
    assert contested("n1", None).startswith("node n1: another client deletes its Device object after each write")
