"""What vendors other than NVIDIA do to a container at admission, in short."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from hami_plugins.engine.mutate import PodAdmission, WebhookSettings, admit
from hami_plugins.engine.registry import Registry
from hami_plugins.model.quantity import NANO
from hami_plugins.vendors import kunlun, metax, mthreads
from tests import builders
from tests.golden import cases, notation


@cases.each("hami-core/webhook-vendors.yaml")
def test_vendor_changes_a_container_as_its_vector_says(case: cases.Case) -> None:
    _CHECKS[case.id](case.expect)


def _admitted(vendor: str, **amounts: int) -> PodAdmission:
    spec = notation.vendor(vendor)
    limits = {getattr(spec.resources, name): amount for name, amount in amounts.items()}
    return admit(notation.pod(builders.a_container(limits)), Registry([spec]), WebhookSettings())


def _limits(vendor: str, **amounts: int) -> dict[str, int]:
    """The limits that the webhook leaves, by what they mean."""
    names = notation.vendor(vendor).resources
    after = _admitted(vendor, **amounts).pod.containers[0].limits
    meant = {names.count: "count", names.memory: "memory", names.cores: "cores"}
    return {meant[name]: amount.nano // NANO for name, amount in after.items()}


def _refused(vendor: str, **amounts: int) -> str:
    answer = _admitted(vendor, **amounts)
    assert not answer.allowed
    return answer.message


def _pairs_of_dies(expect: Mapping[str, Any]) -> None:
    assert _limits("Ascend910C", count=1)["count"] == expect["count"]


def _no_odd_dies(expect: Mapping[str, Any]) -> None:
    assert _refused("Ascend910C", count=3) == expect["error"]


def _no_several_slices(expect: Mapping[str, Any]) -> None:
    assert _refused("Ascend910B3", count=2, memory=1024) == expect["error"]


def _all_cores_of_several(expect: Mapping[str, Any]) -> None:
    assert _limits("MR-V100", count=2)["cores"] == expect["cores"]


def _whole_cards_of_several(expect: Mapping[str, Any]) -> None:
    assert _limits("Mthreads", count=2) == {"count": 2, "cores": expect["cores"], "memory": expect["memory"]}
    assert _admitted("Mthreads", count=2).pod.annotations[expect["annotation"]] == "2"


def _legal_memory(expect: Mapping[str, Any]) -> None:
    assert list(mthreads.MEMORY_STEPS) == expect["memory_slices"]
    allowed = [units for units in range(120) if _admitted("Mthreads", count=1, memory=units).allowed]
    assert allowed == expect["memory_slices"]


def _quality(expect: Mapping[str, Any]) -> None:
    assert _admitted("Metax-SGPU", count=1).pod.annotations[metax.QOS_KEY] == expect["qos_default"]
    assert list(metax.QUALITIES) == expect["qos_values"]
    assert list(metax.APP_CLASSES) == expect["app_class_values"]


def _rounded_slices(expect: Mapping[str, Any]) -> None:
    assert list(kunlun.SLICES) == expect["memory_values"]
    rounded = {_limits("XPU", count=1, memory=size)["memory"] for size in range(1, 98_305, 4_000)}
    assert sorted(rounded) == expect["memory_values"]


def _percentages(expect: Mapping[str, Any]) -> None:
    allowed = [cores for cores in range(-2, 110) if _admitted("AMD", count=1, cores=cores).allowed]
    assert allowed == list(range(expect["cores_min"], expect["cores_max"] + 1))


_CHECKS: Final[Mapping[str, Callable[[Mapping[str, Any]], None]]] = {
    "webhook-vendor-ascend910c-1": _pairs_of_dies,
    "webhook-vendor-ascend910c-3": _no_odd_dies,
    "webhook-vendor-ascend-multi": _no_several_slices,
    "webhook-vendor-iluvatar-2": _all_cores_of_several,
    "webhook-vendor-mthreads-2": _whole_cards_of_several,
    "webhook-vendor-mthreads-slices": _legal_memory,
    "webhook-vendor-metax-qos": _quality,
    "webhook-vendor-kunlun-vxpu": _rounded_slices,
    "webhook-vendor-amd-cores": _percentages,
}
