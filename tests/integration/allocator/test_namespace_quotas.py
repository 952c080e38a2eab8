"""ResourceQuotas of HAMi's resources: at admission, at filter, and at both ways to be bound."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hami_plugins.errors import KubeError
from tests.integration.allocator.hami_pods import a_holder, a_node, a_pod, bind, call, hami
from tests.waiting import wait_for


def a_quota(memory: int) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "devices", "namespace": "default"},
        "spec": {"hard": {"limits.nvidia.com/gpumem": str(memory)}},
    }


def test_a_quota_decides_at_every_step_and_a_raise_takes_effect(tmp_path: Path) -> None:
    with hami(tmp_path, a_node("n1"), a_node("n2")) as (place, client):
        first, second = place.create(a_pod("first", 6_000), a_pod("second", 5_000))
        wait_for(lambda: call(client, "filter", Pod=first, NodeNames=["n1"])["NodeNames"])
        place.put(a_quota(12_000), a_holder("holder", "n1", "GPU-n1-0", 2_000))
        with pytest.raises(KubeError) as refusal:
            wait_for(lambda: place.create(a_pod("large", 10_001)) and None)
        assert bind(client, first, "n1") == ""
        nodes = ["n1", "n2"]
        reply = wait_for(lambda: _refused(call(client, "filter", Pod=second, NodeNames=nodes)))
        declined = bind(client, second, "n2")
        place.put(a_quota(13_000))
        wait_for(lambda: call(client, "filter", Pod=second, NodeNames=nodes)["NodeNames"] == nodes)
        assert bind(client, second, "n2") == ""
    assert "exceeding resource quota (limits.nvidia.com/gpumem: asks 10,001, 10,000 left)" in str(refusal.value)
    assert "raise the namespace's ResourceQuota" in str(refusal.value)
    assert sorted(reply["FailedNodes"]) == nodes, "eviction may give room back"
    for text in (*reply["FailedNodes"].values(), declined):
        assert "quota: asked 5,000 MiB on 1 card; the namespace has 4,000 MiB left" in text
        assert "raise the namespace's ResourceQuota" in text


def _refused(reply: Any) -> Any:
    return reply if not reply["NodeNames"] else None
