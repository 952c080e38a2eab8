"""What a namespace's ResourceQuota means for devices."""

from hami_plugins.engine.headroom import HeadroomComparison
from hami_plugins.engine.mutate import WebhookSettings, admit
from hami_plugins.engine.place import Placer
from hami_plugins.engine.quota import headroom
from hami_plugins.model.cluster import NamespaceQuota
from hami_plugins.model.nodes import NodeShape, NodeState
from hami_plugins.model.pods import Pod
from hami_plugins.model.policy import DEFAULT_POLICY
from hami_plugins.model.quantity import NANO
from hami_plugins.model.requests import ContainerDemand, ContainerKind, DeviceDemand
from hami_plugins.model.units import VendorName
from hami_plugins.model.vendor import Headroom
from hami_plugins.model.verdicts import NoFit
from tests.golden import cases, notation


@cases.each("hami-vendors/quota.yaml")
def test_quota_holds_as_its_vector_says(case: cases.Case) -> None:
    match case.given["op"]:
        case "managed":
            assert bool(_left({case.given["key"]: 1})) is case.expect["managed"]
        case "limit":
            room = _left(case.given["quota"])[VendorName(case.given["backend"])]
            assert room.memory == case.expect["limit_mib"]
            assert notation.vendor(case.given["backend"]).memory_factor() == case.given["memory_factor"]
        case "fit":
            _fits(case)
        case "admission":
            _admitted(case)


def _left(quota: dict[str, int]) -> dict[VendorName, Headroom]:
    hard = {key: amount * NANO for key, amount in quota.items()}
    return dict(headroom(NamespaceQuota(namespace="default", hard=hard), {}, notation.registry()))


def _fits(case: cases.Case) -> None:
    given = case.given
    spec = notation.vendor(given["backend"])
    row = {"count": 100, "totalmem": given["totalmem"], "totalcore": 100, "index": 0, "health": True}
    request = notation.read(spec, given["request"], {})
    demand = DeviceDemand((ContainerDemand(ContainerKind.APP, (request,)),))
    left = _left(given["quota"])
    assert left[spec.name].memory == case.expect["limit_mib"]
    placer = Placer(demand, DEFAULT_POLICY, notation.registry())
    quota = HeadroomComparison(tuple(left.items()))
    verdict = placer(NodeState.idle(NodeShape((notation.device(spec, row),))), quota=quota)
    assert isinstance(verdict, NoFit) is not case.expect["fit"]
    assert isinstance(verdict, NoFit)
    assert verdict.words == case.expect["reason"]


def _admitted(case: cases.Case) -> None:
    """The webhook's sums: a limit that they just meet lets the pod through, one less does not."""
    given = case.given
    asked = [(ContainerKind.INIT, each) for each in given.get("init", ())]
    asked += [(ContainerKind.APP, each) for each in given["app"]]
    limits = [
        {
            "nvidia.com/gpu": str(each["nums"]),
            "nvidia.com/gpumem": str(each["memreq"]),
            "nvidia.com/gpumem-percentage": str(each.get("pct", 0)),
        }
        for _, each in asked
    ]
    containers = [
        notation.container({"limits": each}, name=f"c{at}", kind=kind)
        for at, ((kind, _), each) in enumerate(zip(asked, limits, strict=True))
    ]
    pod = notation.pod(*containers)
    assert _lets_through(pod, given["quota"]) is case.expect["fit"]
    counted = case.expect.get("memory_counted")
    if counted is not None:
        assert _lets_through(pod, {"limits.nvidia.com/gpumem": counted})
        assert not counted or not _lets_through(pod, {"limits.nvidia.com/gpumem": counted - 1})


def _lets_through(pod: Pod, quota: dict[str, int]) -> bool:
    return admit(pod, notation.registry(), WebhookSettings(), _left(quota)).allowed
