"""Claims of volumes, held against the cluster's objects before a job that mounts them is created."""

from __future__ import annotations

from typing import Any

import pytest

from neuron_topology.core.jobs import claims
from neuron_topology.core.jobs.claims import ClaimUse, StorageObjects
from tests.unit.neuron_topology.jobs.submitted import a_container, a_job, a_task

ZONE = "topology.kubernetes.io/zone"
SHARED = ClaimUse("fsx", pods=2, writes=True)
CACHE = ClaimUse("fsx", pods=2, writes=True, cache=True)


def a_claim(*modes: str, phase: str = "Bound", metadata: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    return {"metadata": metadata or {}, "spec": {"accessModes": [*modes], **spec}, "status": {"phase": phase}}


def objects(claim: dict[str, Any] | None = None, **more: Any) -> StorageObjects:
    """The claim ``fsx`` of the namespace ``team``, on the volume ``pv`` of the class ``lustre`` unless it says more."""
    found = {} if claim is None else {"fsx": claim}
    return StorageObjects(namespace="team", claims={**found, "other": a_claim("ReadWriteMany")}, **more)


def told(use: ClaimUse, found: StorageObjects) -> list[tuple[str, bool]]:
    return [(each.text, each.blocks) for each in claims.findings(use, found)]


def mounting(*mounts: dict[str, Any], claim: dict[str, Any] | None = None, **task: Any) -> dict[str, Any]:
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": "fsx", **(claim or {})}}
    return a_task(a_container(volumeMounts=[*mounts]), spec={"volumes": [volume]}, **task)


def test_a_claim_is_used_by_every_pod_that_mounts_it() -> None:
    mount = {"name": "v", "mountPath": "/data"}
    job = a_job(mounting(mount, name="a"), mounting(mount, name="b", replicas=3), a_task(name="c"))
    assert claims.uses(job) == (ClaimUse("fsx", pods=4, writes=True),)
    del job["spec"]["tasks"][0]["replicas"]
    assert claims.uses(job) == (ClaimUse("fsx", pods=4, writes=True),)


@pytest.mark.parametrize(
    ("mount", "claim", "writes"),
    [({}, {}, True), ({"readOnly": True}, {}, False), ({}, {"readOnly": True}, False), ({"name": "w"}, {}, False)],
)
def test_a_claim_is_written_where_neither_its_mount_nor_its_volume_is_for_reading(
    mount: dict[str, Any], claim: dict[str, Any], *, writes: bool
) -> None:
    job = a_job(mounting({"name": "v", "mountPath": "/data", **mount}, claim=claim))
    assert claims.uses(job) == (ClaimUse("fsx", pods=1, writes=writes),)


def test_the_claim_of_the_compile_cache_is_known() -> None:
    env = [{"name": "NEURON_COMPILE_CACHE_URL", "value": "/data/graphs"}]
    container = a_container(env=env, volumeMounts=[{"name": "v", "mountPath": "/data"}])
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": "fsx"}}
    assert claims.uses(a_job(a_task(container, spec={"volumes": [volume]}))) == (ClaimUse("fsx", 1, True, cache=True),)


def test_a_claim_that_is_not_there_is_told_with_those_that_are() -> None:
    text = "claim team/fsx does not exist; create it, or name one of those in the namespace: other"
    assert told(SHARED, objects()) == [(text, True)]
    (finding,) = claims.findings(SHARED, StorageObjects(namespace="team"))
    assert finding.text.endswith("in the namespace: none")


def test_a_bound_claim_for_many_nodes_is_fine() -> None:
    assert told(SHARED, objects(a_claim("ReadWriteMany"))) == []


def test_a_claim_that_is_being_deleted_is_told() -> None:
    claim = a_claim("ReadWriteMany", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    ((text, blocks),) = told(SHARED, objects(claim))
    assert (text, blocks) == (
        "claim team/fsx: metadata.deletionTimestamp is set: it is being deleted; name another claim",
        True,
    )


@pytest.mark.parametrize(
    ("phase", "storage", "classes", "why"),
    [
        ("Pending", "late", {"late": {"volumeBindingMode": "WaitForFirstConsumer"}}, ""),
        ("", "late", {"late": {"volumeBindingMode": "WaitForFirstConsumer"}}, ""),
        ("Pending", "now", {"now": {"volumeBindingMode": "Immediate"}}, "storage class now binds at once: wait"),
        ("Pending", "gone", {}, "spec.storageClassName gone does not exist"),
        ("Pending", "", {}, "status.phase is Pending and it has no storage class"),
        ("Lost", "late", {"late": {"volumeBindingMode": "WaitForFirstConsumer"}}, "status.phase is Lost"),
    ],
)
def test_a_claim_without_a_volume_is_told_unless_its_pods_bring_one(
    phase: str, storage: str, classes: dict[str, Any], why: str
) -> None:
    claim = a_claim("ReadWriteMany", phase=phase, storageClassName=storage)
    found = told(SHARED, objects(claim, classes=classes))
    assert [(why in text, blocks) for text, blocks in found] == ([(True, True)] if why else [])


@pytest.mark.parametrize(
    ("modes", "pods", "writes", "why"),
    [
        (
            ("ReadWriteOnce",),
            2,
            True,
            "accessModes is ReadWriteOnce, and 2 pods mount it; name a claim with ReadWriteMany",
        ),
        (("ReadWriteOnce",), 1, True, ""),
        (("ReadWriteOnce",), 2, False, "accessModes is ReadWriteOnce, and 2 pods mount it"),
        (("ReadOnlyMany",), 2, False, ""),
        (("ReadOnlyMany",), 1, True, "accessModes is ReadOnlyMany, and pods write to it"),
        (("ReadOnlyMany", "ReadWriteOnce"), 1, True, ""),
        (("ReadOnlyMany", "ReadWriteOnce"), 2, True, "accessModes is ReadOnlyMany, ReadWriteOnce, and 2 pods mount it"),
        (("ReadWriteMany", "ReadWriteOnce"), 2, True, ""),
        ((), 2, True, ""),
    ],
)
def test_a_claim_that_the_pods_nodes_cannot_all_mount_is_told(
    modes: tuple[str, ...], pods: int, *, writes: bool, why: str
) -> None:
    found = told(ClaimUse("fsx", pods, writes), objects(a_claim(*modes)))
    assert [(why in text, blocks) for text, blocks in found] == ([(True, True)] if why else [])


def test_what_a_bound_volume_offers_counts_more_than_what_was_asked_for() -> None:
    claim = a_claim("ReadWriteOnce")
    claim["status"]["accessModes"] = ["ReadWriteMany"]
    assert told(SHARED, objects(claim)) == []


def a_volume(driver: str, *options: str, **spec: Any) -> dict[str, Any]:
    return {"spec": {"csi": {"driver": driver}, "mountOptions": [*options], **spec}}


@pytest.mark.parametrize(
    ("driver", "options", "why", "blocks"),
    [
        ("fsx.csi.aws.com", ("noatime", "flock"), "", False),
        ("fsx.csi.aws.com", ("noatime,flock",), "", False),
        ("fsx.csi.aws.com", (), "volume pv: mountOptions has no flock", False),
        ("fsx.csi.aws.com", ("localflock",), "volume pv: mountOptions has localflock", True),
        ("fsx.csi.aws.com", ("noflock",), "volume pv: mountOptions has noflock", True),
        ("efs.csi.aws.com", (), "", False),
        ("s3.csi.aws.com", (), "volume pv is of s3.csi.aws.com: a mounted bucket has no locks", True),
    ],
)
def test_a_file_system_on_which_compilers_cannot_lock_is_told_for_the_cache_alone(
    driver: str, options: tuple[str, ...], why: str, *, blocks: bool
) -> None:
    found = objects(a_claim("ReadWriteMany", volumeName="pv"), volumes={"pv": a_volume(driver, *options)})
    assert [(why in text, blocking) for text, blocking in told(CACHE, found)] == ([(True, blocks)] if why else [])
    assert told(SHARED, found) == []


def test_a_class_says_how_the_volumes_that_it_will_make_are_mounted() -> None:
    claim = a_claim("ReadWriteMany", phase="Pending", storageClassName="late")
    late = {"volumeBindingMode": "WaitForFirstConsumer", "provisioner": "fsx.csi.aws.com", "mountOptions": ["noflock"]}
    ((text, blocks),) = told(CACHE, objects(claim, classes={"late": late}))
    assert ("storage class late: mountOptions has noflock" in text, blocks) == (True, True)
    assert told(CACHE, objects(a_claim("ReadWriteMany", storageClassName="unread"))) == []


def test_a_volume_may_be_for_the_nodes_of_a_zone() -> None:
    term = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["a", "b"]}]}
    volume = a_volume("x", nodeAffinity={"required": {"nodeSelectorTerms": [term, {"matchExpressions": [
        {"key": "fast", "operator": "Exists"}]}]}})  # fmt: skip
    found = objects(a_claim("ReadWriteMany", volumeName="pv"), volumes={"pv": volume})
    reach = claims.reach(SHARED, found)
    assert reach is not None
    place, terms = reach
    assert place == "volume pv: spec.nodeAffinity.required"
    assert claims.shown(terms) == f"{ZONE} In a, b or fast Exists"


def test_a_class_may_make_volumes_for_the_nodes_of_a_zone() -> None:
    late = {
        "allowedTopologies": [
            {"matchLabelExpressions": [{"key": ZONE, "values": ["a"]}, {"key": "k", "values": ["v"]}]}
        ]
    }
    claim = a_claim("ReadWriteMany", phase="Pending", storageClassName="late")
    reach = claims.reach(SHARED, objects(claim, classes={"late": late}))
    assert reach is not None
    assert (reach[0], claims.shown(reach[1])) == (
        "storage class late: allowedTopologies",
        f"{ZONE} In a and k In v",
    )


def test_every_node_can_mount_a_claim_of_which_nothing_else_is_said() -> None:
    plain = objects(a_claim("ReadWriteMany", volumeName="pv", storageClassName="c"), volumes={"pv": a_volume("x")})
    assert claims.reach(SHARED, plain) is None
    assert claims.reach(SHARED, objects(a_claim("ReadWriteMany", storageClassName="c"), classes={"c": {}})) is None
    assert claims.reach(SHARED, objects()) is None
