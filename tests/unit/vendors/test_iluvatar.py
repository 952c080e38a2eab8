"""Iluvatar cards."""

import pytest

from hami_plugins.model.inventory import NodeObject
from hami_plugins.model.vendor import VendorSpec
from hami_plugins.vendors.iluvatar import SPECS
from tests.builders import a_container, a_node_object, a_pod
from tests.unit.vendors.placing import place

every_model = pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)


def node(spec: VendorSpec) -> NodeObject:
    return a_node_object(
        "n", annotations={spec.keys.register: f"g0,4,16384,100,{spec.name},0,true:g1,4,16384,100,x,0,true:"}
    )


@every_model
def test_a_container_without_the_models_cards_is_left_alone(spec: VendorSpec) -> None:
    assert spec.admit is not None
    answer = spec.admit(spec, a_container({"cpu": 1}), a_pod())
    assert (answer.claimed, answer.changes) == (False, ())


@every_model
def test_the_vendors_runtime_learns_the_containers_name(spec: VendorSpec) -> None:
    assert spec.admit is not None
    container = a_container({spec.resources.count: 1}, name="train")
    assert spec.admit(spec, container, a_pod(container)).changes == (("env", "SOL_CONTINER_NAME", "train"),)


@every_model
@pytest.mark.parametrize(("name", "env"), [("train", frozenset({"SOL_CONTINER_NAME"})), ("", frozenset())])
def test_a_name_that_is_known_or_missing_is_not_told(spec: VendorSpec, name: str, env: frozenset[str]) -> None:
    assert spec.admit is not None
    container = a_container({spec.resources.count: 1}, name=name, env=env)
    answer = spec.admit(spec, container, a_pod(container))
    assert (answer.claimed, answer.changes) == (True, ())


@every_model
def test_several_cards_mean_all_cores_of_each(spec: VendorSpec) -> None:
    pod = a_pod(a_container({spec.resources.count: 2, spec.resources.cores: 10, spec.resources.memory: 4}))
    written = place(spec, node(spec), pod)
    assert isinstance(written, dict)
    assert written[spec.keys.allocated] == f"g1,{spec.name},1024,100:g0,{spec.name},1024,100:;"


@every_model
def test_one_card_may_be_shared_without_naming_cores(spec: VendorSpec) -> None:
    pod = a_pod(a_container({spec.resources.count: 1, spec.resources.memory: 4}))
    written = place(spec, node(spec), pod)
    assert isinstance(written, dict)
    assert written[spec.keys.allocated] == f"g1,{spec.name},1024,0:;"
