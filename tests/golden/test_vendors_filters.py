"""Lists of device ids and card models in a pod's annotations."""

import pytest

from hami_plugins.engine.checks import wanted_model
from hami_plugins.engine.demand import selector_of
from hami_plugins.model.devices import IDLE, Device
from hami_plugins.model.nodes import NodeShape
from hami_plugins.model.policy import DEFAULT_POLICY
from hami_plugins.model.requests import Absolute, DeviceRequest, DeviceSelector
from hami_plugins.model.units import CoreShare, DeviceId, MiB
from hami_plugins.model.vendor import Candidate, ContainerRequest, VendorSpec
from tests.golden import cases, notation


def _vendors(case: cases.Case) -> list[VendorSpec]:
    """The vendor that the vector names, else all that have such lists."""
    if "backend" in case.given:
        return [notation.vendor(case.given["backend"])]
    by_id = case.given["kind"] == "uuid"
    return [spec for spec in notation.registry() if (spec.keys.use_ids if by_id else spec.keys.use_models)]


def _accepts(selector: DeviceSelector, case: cases.Case) -> bool:
    if case.given["kind"] == "uuid":
        return selector.accepts_id(DeviceId(case.given["subject"]))
    return accepts_model(selector, model=case.given["subject"])


def accepts_model(selector: DeviceSelector, *, model: str = "", mode: str = "") -> bool:
    """Whether a device of this model and mode passes a selection."""
    spec = notation.vendor("NVIDIA")
    device = Device(vendor=spec.name, model=model, slots=1, memory=MiB(1), cores=CoreShare(1), index=0, mode=mode)
    request = DeviceRequest(vendor=spec.name, count=1, memory=Absolute(MiB(0)), selector=selector)
    return (
        wanted_model(Candidate(0, device, IDLE), ContainerRequest(request, DEFAULT_POLICY, NodeShape((device,))))
        is None
    )


@cases.each("hami-vendors/filters.yaml")
def test_list_accepts_what_its_vector_says(case: cases.Case) -> None:
    vendors = _vendors(case)
    assert vendors
    for spec in vendors:
        keys = spec.keys
        by_id = case.given["kind"] == "uuid"
        use = keys.use_ids[0] if by_id else keys.use_models
        avoid = keys.avoid_ids[0] if by_id else keys.avoid_models
        said = {use: case.given["use"], avoid: case.given["nouse"]}
        selector = selector_of(keys, {key: text for key, text in said.items() if text is not None})
        assert _accepts(selector, case) is case.expect["ok"], spec.name


@pytest.mark.parametrize(
    "case", [case for case in cases.of("hami-vendors/filters.yaml") if case.given["kind"] == "uuid"]
)
def test_second_pair_of_keys_of_a_vendor_works_like_the_first(case: cases.Case) -> None:
    """Kunlun has two pairs."""
    for spec in notation.registry():
        for use, avoid in zip(spec.keys.use_ids[1:], spec.keys.avoid_ids[1:], strict=True):
            said = {use: case.given["use"], avoid: case.given["nouse"]}
            selector = selector_of(spec.keys, {key: text for key, text in said.items() if text is not None})
            assert _accepts(selector, case) is case.expect["ok"], spec.name
