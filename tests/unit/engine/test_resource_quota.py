"""ResourceQuota as the API server enforces it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hami_plugins.engine import resource_quota
from hami_plugins.engine.resource_quota import ResourceQuotaExcess
from hami_plugins.model.cluster import ClusterSnapshot, NamespaceQuota
from hami_plugins.model.pods import Pod
from hami_plugins.model.quantity import NANO
from hami_plugins.wire import objects
from tests.builders import a_node, a_record

GI = 2**30 * NANO


def pod(*containers: dict[str, Any], init: tuple[dict[str, Any], ...] = (), name: str = "p") -> Pod:
    def listed(parts: tuple[dict[str, Any], ...]) -> list[dict[str, Any]]:
        return [{"name": f"c{at}", "resources": part} for at, part in enumerate(parts)]

    spec = {"containers": listed(containers), "initContainers": listed(init)}
    return objects.pod({"metadata": {"name": name}, "spec": spec})


def quota(**hard: int) -> NamespaceQuota:
    return NamespaceQuota(namespace="default", hard=hard)


def test_a_pod_counts_for_itself_its_requests_and_ordinary_limits() -> None:
    found = resource_quota.counted(pod({"limits": {"cpu": "2", "memory": "1Gi", "a.com/gpu": "3"}}))
    assert found == {
        "pods": NANO,
        "count/pods": NANO,
        "cpu": 2 * NANO,
        "requests.cpu": 2 * NANO,
        "limits.cpu": 2 * NANO,
        "memory": GI,
        "requests.memory": GI,
        "limits.memory": GI,
        "requests.a.com/gpu": 3 * NANO,
    }


def test_limits_of_init_containers_count_if_they_are_larger_than_the_sum() -> None:
    small, large = {"limits": {"cpu": "1"}}, {"limits": {"cpu": "5"}}
    assert resource_quota.counted(pod(small, small, init=(small,)))["limits.cpu"] == 2 * NANO
    assert resource_quota.counted(pod(small, small, init=(large,)))["limits.cpu"] == 5 * NANO


def test_hugepages_count_under_both_names() -> None:
    found = resource_quota.counted(pod({"limits": {"hugepages-2Mi": "4Mi"}}))
    assert found["hugepages-2Mi"] == found["requests.hugepages-2Mi"] == 2**22 * NANO


def test_placed_and_pending_pods_of_the_namespace_are_taken() -> None:
    held = replace(a_record(), requests=(("a.com/gpu", 2 * NANO),))
    other = replace(a_record(), namespace="other", requests=(("a.com/gpu", 5 * NANO),))
    waiting = (pod({"limits": {"a.com/gpu": "1"}}), replace(pod({}), namespace="other"))
    limits = NamespaceQuota(namespace="default", hard={}, used={"limits.cpu": 7 * NANO, "pods": 9 * NANO})
    snapshot = ClusterSnapshot(
        nodes=(replace(a_node(), pods=(held, other)),), pending=waiting, quotas={"default": limits}
    )
    found = resource_quota.taken(snapshot, "default")
    assert found["requests.a.com/gpu"] == 3 * NANO
    assert found["pods"] == 2 * NANO
    assert found["limits.cpu"] == 7 * NANO
    assert resource_quota.taken(ClusterSnapshot(), "default") == {}


def test_what_would_be_too_much_is_said_as_the_api_server_does() -> None:
    wanted = pod({"limits": {"a.com/mem": "8000", "memory": "2Gi"}}, name="a1")
    limits = NamespaceQuota(
        namespace="default", hard={"requests.a.com/mem": 15_000 * NANO, "requests.memory": GI, "pods": 5 * NANO}
    )
    used = {"requests.a.com/mem": 10_000 * NANO}
    broken = resource_quota.excesses(limits, used, resource_quota.counted(wanted))
    assert broken == (
        ResourceQuotaExcess("requests.a.com/mem", 8_000 * NANO, 10_000 * NANO, 15_000 * NANO),
        ResourceQuotaExcess("requests.memory", 2 * GI, 0, GI),
    )
    assert str(broken[0]) == "quota: requests.a.com/mem: asks 8000, 10000 of 15000 are taken"
    assert resource_quota.words(wanted, broken) == (
        'pods "a1" is forbidden: exceeded quota, requested: requests.a.com/mem=8k,requests.memory=2Gi, '
        "used: requests.a.com/mem=10k,requests.memory=0, limited: requests.a.com/mem=15k,requests.memory=1Gi"
    )


@pytest.mark.parametrize(
    ("hard", "missing"),
    [
        ({"requests.cpu": NANO}, ("requests.cpu",)),
        ({"cpu": NANO}, ("requests.cpu",)),
        ({"limits.memory": NANO}, ("limits.memory",)),
        ({"requests.a.com/gpu": NANO}, ()),
    ],
)
def test_amounts_that_a_quota_wants_named(hard: dict[str, int], missing: tuple[str, ...]) -> None:
    limits = NamespaceQuota(namespace="default", hard=hard)
    assert resource_quota.unnamed(limits, pod({})) == missing
    assert resource_quota.unnamed(limits, pod({"limits": {"cpu": "1", "memory": "1"}})) == ()
