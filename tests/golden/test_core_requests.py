"""What NVIDIA's resources of a container mean, and how a pod's containers are listed."""

from hami_plugins.engine.demand import demand_of
from hami_plugins.engine.registry import Registry
from hami_plugins.model.requests import ContainerKind
from hami_plugins.vendors import nvidia
from tests.golden import cases, notation

_UNREADABLE = "HAMi takes the container for one without GPUs and starts it without any accounting; we refuse the amount"

DEVIATIONS = dict.fromkeys(("req-r10-a", "req-r10-b", "req-r11-b"), _UNREADABLE)

_CONFIG = {"memory_factor": "memoryFactor", "default_memory": "defaultMemory", "default_cores": "defaultCores"}


@cases.each("hami-core/requests.yaml")
def test_resources_are_read_as_their_vector_says(case: cases.Case) -> None:
    spec = notation.vendor("NVIDIA", {_CONFIG[name]: amount for name, amount in case.given["config"].items()})
    found = notation.asked(spec, notation.container(case.given))
    if case.id in DEVIATIONS:
        assert found == notation.REFUSED
    elif case.expect.get("nums") == 0:
        assert found is None
    else:
        assert found is not None
        assert not isinstance(found, str)
        ours = notation.written(found)
        # HAMi's 101 says that memory is named, which is what makes its percentage meaningless.
        assert all(ours[name] == case.expect[name] for name in case.expect if not (name == "pct" and ours["memreq"]))


@cases.each("hami-core/resource-reqs.yaml")
def test_a_pods_containers_are_listed_as_their_vector_says(case: cases.Case) -> None:
    kinds = [("init", raw) for raw in case.given["init"]] + [("app", raw) for raw in case.given["app"]]
    containers = tuple(
        notation.container(
            {"limits": {"nvidia.com/gpu": str(raw["gpu"])} if raw else {}},
            name=f"c{at}",
            kind=ContainerKind(kind),
        )
        for at, (kind, raw) in enumerate(kinds)
    )
    found = demand_of(notation.pod(*containers), Registry([nvidia.SPEC])).containers
    assert len(found) == case.expect.get("length", len(found))
    if "init_index" in case.expect:
        assert found[case.expect["init_index"]].kind == "init"
    if "list" in case.expect:
        assert [dict.fromkeys(each.requests) for each in found] == case.expect["list"]
