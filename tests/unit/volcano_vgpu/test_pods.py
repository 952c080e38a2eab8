"""What is kept of a pod."""

from __future__ import annotations

from volcano_vgpu.agent.pods import trimmed


def test_what_the_agent_reads_is_kept_and_the_rest_is_not() -> None:
    kept = trimmed(
        {
            "apiVersion": "v1",
            "metadata": {
                "name": "one",
                "uid": "u1",
                "managedFields": [1, 2, 3],
                "annotations": {"a": "b", "kubectl.kubernetes.io/last-applied-configuration": "x" * 1000},
            },
            "spec": {"nodeName": "n1", "containers": [{"name": "main"}], "tolerations": [1]},
            "status": {"phase": "Running", "conditions": [1]},
        }
    )
    assert kept == {
        "kind": "Pod",
        "metadata": {"name": "one", "uid": "u1", "annotations": {"a": "b"}},
        "spec": {"nodeName": "n1", "containers": [{"name": "main"}]},
        "status": {"phase": "Running"},
    }


def test_a_pod_without_parts_is_kept_as_one() -> None:
    assert trimmed({"metadata": None}) == {"kind": "Pod", "metadata": {}, "spec": {}, "status": {}}


def test_who_wrote_an_allocation_or_chose_the_node_is_kept_and_when_the_pod_was_bound() -> None:
    def entry(manager: str, fields: object) -> dict[str, object]:
        return {"manager": manager, "time": "2026-08-21T10:00:00Z", "fieldsV1": fields}

    author = entry("kubectl", {"f:spec": {"f:nodeName": {}}})
    forger = entry("curl", {"f:metadata": {"f:annotations": {"f:volcano.sh/vgpu-ids-new": {}}}})
    other = entry("kubelet", {"f:metadata": {"f:annotations": {"f:note": {}}}, "f:status": {}})
    bound = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-08-21T10:00:00Z"}
    kept = trimmed(
        {
            "metadata": {"name": "one", "managedFields": [author, other, "odd", forger]},
            "status": {"conditions": [{"type": "Ready"}, bound]},
        }
    )
    assert kept["metadata"] == {"name": "one", "managedFields": [author, forger]}
    assert kept["status"] == {"conditions": [bound]}
