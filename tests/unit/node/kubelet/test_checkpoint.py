"""The kubelet's record of allocations."""

from __future__ import annotations

import base64
import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_plugins.errors import WireError
from hami_plugins.model.units import PodUid
from hami_plugins.node.kubelet import checkpoint
from hami_plugins.node.kubelet.checkpoint import Checkpoint, CheckpointEntry
from hami_plugins.node.kubelet.deviceplugin_pb2 import CDIDevice, ContainerAllocateResponse

NAMES = st.text(min_size=1, max_size=12)
ENTRIES = st.builds(
    CheckpointEntry,
    pod_uid=NAMES.map(PodUid),
    container=NAMES,
    resource=NAMES,
    device_ids=st.frozensets(NAMES, max_size=4),
    response=NAMES.map(lambda name: ContainerAllocateResponse(cdi_devices=[CDIDevice(name=name)])),
)


def entry(**changes: Any) -> dict[str, Any]:
    return {
        "PodUID": "uid-1",
        "ContainerName": "main",
        "ResourceName": "volcano.sh/vgpu-number",
        "DeviceIDs": {"-1": ["s0"], "1": ["s1"]},
        "AllocResp": base64.b64encode(ContainerAllocateResponse(envs={"A": "b"}).SerializeToString()).decode(),
        **changes,
    }


def text(*entries: Any) -> str:
    return json.dumps({"Data": {"PodDeviceEntries": list(entries), "RegisteredDevices": {"r": ["s0"]}}, "Checksum": 1})


@given(st.lists(ENTRIES, max_size=5), st.dictionaries(NAMES, st.lists(NAMES).map(tuple), max_size=3))
def test_decode_undoes_encode(entries: list[CheckpointEntry], registered: dict[str, tuple[str, ...]]) -> None:
    record = Checkpoint(tuple(entries), registered)
    assert checkpoint.decode(checkpoint.encode(record)) == record


def test_ids_of_all_numa_nodes_belong_to_the_container() -> None:
    (found,) = checkpoint.decode(text(entry())).entries
    assert found.device_ids == {"s0", "s1"}
    assert dict(found.response.envs) == {"A": "b"}


def test_a_kubelet_without_devices_has_an_empty_record() -> None:
    assert checkpoint.decode('{"Data":{"PodDeviceEntries":null,"RegisteredDevices":null},"Checksum":1}') == Checkpoint(
        (), {}
    )


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param(entry(AllocResp="!"), id="no base64"),
        pytest.param(entry(AllocResp=base64.b64encode(b"\xff\xff\xff").decode()), id="no answer"),
        pytest.param(entry(PodUID=""), id="no pod"),
        pytest.param(entry(DeviceIDs=None), id="no devices"),
        pytest.param({"PodUID": "x"}, id="no container"),
        pytest.param("text", id="no entry at all"),
    ],
)
def test_an_entry_that_cannot_be_read_is_named_and_hides_no_other(broken: Any) -> None:
    found = checkpoint.decode(text(entry(PodUID="first"), broken, entry(PodUID="last")))
    assert [each.pod_uid for each in found.entries] == ["first", "last"]
    assert len(found.unreadable) == 1
    assert "PodDeviceEntries[1]" in found.unreadable[0]


@pytest.mark.parametrize(
    "broken",
    [
        "",
        "{",
        "[]",
        '{"Data":3}',
        '{"Data":{"PodDeviceEntries":{"a":1}}}',
        b"\x00\xff",
        pytest.param("[" * 200_000, id="deep"),
    ],
)
def test_a_file_that_is_no_record_is_an_error(broken: str | bytes) -> None:
    with pytest.raises(WireError, match="kubelet_internal_checkpoint"):
        checkpoint.decode(broken)


@given(st.one_of(st.text(), st.binary()))
def test_any_text_gives_a_record_or_a_wire_error(any_text: str | bytes) -> None:
    with contextlib.suppress(WireError):
        checkpoint.decode(any_text)
