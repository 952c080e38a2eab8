"""Namespace quotas: what fits, and what happens as quotas and pods come and go."""

from collections.abc import Mapping
from dataclasses import replace

from hami_plugins.engine.apply import removed
from hami_plugins.engine.inventory import with_pods
from hami_plugins.engine.quota import headroom, used_by, within
from hami_plugins.engine.registry import Registry
from hami_plugins.inputs.list_reader import snapshot_of
from hami_plugins.model.cluster import ClusterSnapshot, NamespaceQuota
from hami_plugins.model.quantity import NANO
from hami_plugins.model.units import MiB, VendorName
from hami_plugins.model.vendor import Headroom
from hami_plugins.vendors import nvidia
from tests import acme, builders
from tests.golden import cases

DEVIATIONS = {
    "quota-state-k8-b": "whether a deletion comes as the object or as a tombstone is the watch's business; a snapshot "
    "has the quota or has it not",
}

NVIDIA = VendorName("NVIDIA")
MEMORY, CORES = nvidia.RESOURCES.memory, nvidia.RESOURCES.cores


@cases.each("hami-core/quota.yaml")
def test_request_fits_the_quota_of_its_vector_or_not(case: cases.Case) -> None:
    given = case.given
    spec = replace(nvidia.SPEC, options=replace(nvidia.SPEC.options, memory_factor=given["factor"]))
    registry = Registry([spec] if given["vendor_known"] else [acme.SPEC])
    quota = _quota({MEMORY: given["limits"].get("memory"), CORES: given["limits"].get("cores")})
    used = {NVIDIA: (given["used"].get("memory", 0), given["used"].get("cores", 0))}
    left = dict(headroom(quota if given["namespace_known"] else None, used, registry))
    asked = {NVIDIA: (given["request"].get("memory", 0), given["request"].get("cores", 0))}
    assert within(asked, left) is case.expect["fits"]


def _quota(limits: Mapping[str, int | None], prefix: str = "limits.") -> NamespaceQuota:
    hard = {f"{prefix}{name}": amount * NANO for name, amount in limits.items() if amount is not None}
    return NamespaceQuota(namespace="default", hard=hard)


USED = 700


def _cluster(limit: int | None, *, prefix: str = "limits.", pods: int = 0) -> ClusterSnapshot:
    """A node with so many pods of ``USED`` MiB, and a quota, if there is a limit."""
    share = builders.a_share("GPU-0", USED, vendor="NVIDIA")
    records = [builders.a_record(builders.allocated(share), name=f"p{at}") for at in range(pods)]
    node = with_pods(builders.a_node("n", builders.a_device(vendor="NVIDIA"), ids=["GPU-0"]), records)
    quotas = {} if limit is None else {"default": _quota({MEMORY: limit}, prefix)}
    return ClusterSnapshot(nodes=(node,), quotas=quotas)


def _left(snapshot: ClusterSnapshot) -> Headroom | None:
    registry = Registry([nvidia.SPEC])
    used = used_by(snapshot, "default", registry)
    return dict(headroom(snapshot.quotas.get("default"), used, registry)).get(NVIDIA)


def _used(snapshot: ClusterSnapshot) -> int:
    return used_by(snapshot, "default", Registry([nvidia.SPEC])).get(NVIDIA, (0, 0))[0]


@cases.each("hami-core/quota-state.yaml")
def test_quotas_and_usage_follow_the_events_of_their_vector(case: cases.Case) -> None:
    """Nothing is kept between snapshots: limits are those of the quotas that are there, usage is that of the pods."""
    match case.id:
        case "quota-state-k6-a":
            assert _left(_cluster(2000, prefix="")) is None
        case "quota-state-k6-b":
            both = _quota({MEMORY: 2000}).together_with(_quota({MEMORY: 1}, prefix=""))
            snapshot = replace(_cluster(None), quotas={"default": both})
            assert _left(snapshot) == _left(_cluster(2000))
        case "quota-state-k7":
            gone = removed(_cluster(2000, pods=1), lambda _: True)
            assert _used(removed(gone, lambda _: True)) == case.expect["used"]
        case "quota-state-k8-a" | "quota-state-k8-b":
            after = replace(_cluster(2000, pods=1), quotas={})
            assert _left(after) is None
            assert _used(after) == USED
        case "quota-state-k8-c":
            before = _cluster(2000, pods=1)
            other = snapshot_of([{"kind": "LimitRange", "metadata": {"name": "x"}}], Registry([nvidia.SPEC]))
            assert other.quotas == {}
            assert (_left(before), _used(before)) == (Headroom(MiB(2000 - USED), None), USED)
        case "quota-state-k9":
            after = replace(_cluster(2000, pods=1), quotas={"default": _quota({MEMORY: case.expect["limit"]})})
            assert (_left(after), _used(after)) == (Headroom(MiB(1000 - USED), None), USED)
        case _:
            raise AssertionError(f"{case.id} has no test")
