"""The sums in a node, and the labels that come with them."""

from __future__ import annotations

import pytest

from hami_plugins.errors import WireError
from hami_plugins.wire import koordinator_devices
from hami_plugins.wire.koordinator import CORE, GPU, MEMORY, SHARED
from hami_plugins.wire.koordinator_devices import MODEL_LABEL, VENDOR_LABEL, DeviceObject
from koordinator_adapter.core.devices import sums
from tests.unit.koordinator_adapter.devices.nodes import a_node, card, published

NODE = a_node(card(0), card(1))
PUBLISHED = koordinator_devices.decode(published(NODE))


def test_what_is_missing_comes_in_and_what_is_there_is_not_written() -> None:
    change = sums.change_of(NODE, PUBLISHED)
    assert change is not None
    assert change["metadata"] == {"resourceVersion": "7"}
    wanted = change["status"]["allocatable"]
    assert (wanted[MEMORY], wanted[SHARED], wanted[GPU]) == ("80Gi", "200", "200")
    there = {**NODE, "status": {"capacity": {**wanted, MEMORY: "83886080Ki"}, "allocatable": wanted}}
    assert sums.change_of(there, PUBLISHED) is None
    part = {**NODE, "status": {"capacity": wanted, "allocatable": {**wanted, CORE: "100"}}}
    assert (sums.change_of(part, PUBLISHED) or {})["status"] == {"allocatable": {CORE: "200"}}


def test_what_nobody_publishes_any_more_goes() -> None:
    there = {**NODE, "status": {"capacity": {CORE: "200", "cpu": "4"}, "allocatable": {CORE: "200", SHARED: "200"}}}
    change = sums.change_of(there, DeviceObject(node=PUBLISHED.node))
    assert change is not None
    assert change["status"] == {"capacity": {CORE: None}, "allocatable": {CORE: None, SHARED: None}}
    assert sums.sums_of(None) == {}


def test_names_that_no_node_has_are_left_out() -> None:
    body = published(NODE)
    body["spec"]["devices"][0]["resources"]["example.com/other"] = "5"
    assert "example.com/other" not in sums.sums_of(koordinator_devices.decode(body))


def test_labels_come_once_and_stay() -> None:
    change = sums.labels_of(NODE, PUBLISHED)
    assert change is not None
    assert change["metadata"]["labels"] == {VENDOR_LABEL: "nvidia", MODEL_LABEL: "NVIDIA-A100"}
    labelled = {**NODE, "metadata": {**NODE["metadata"], "labels": change["metadata"]["labels"]}}
    assert sums.labels_of(labelled, PUBLISHED) is None
    assert sums.labels_of(labelled, DeviceObject(node=PUBLISHED.node)) is None
    assert sums.labels_of(NODE, None) is None


def test_a_node_that_cannot_be_read_is_not_written() -> None:
    with pytest.raises(WireError):
        sums.change_of({**NODE, "status": {"capacity": {"cpu": "many"}}}, PUBLISHED)
    with pytest.raises(WireError, match="resourceVersion"):
        sums.change_of({"status": {}}, PUBLISHED)
