"""A registry objects to vendors that collide; it never lets one overwrite another."""

from dataclasses import replace

import pytest

from hami_plugins.engine.registry import Registry, replaced
from hami_plugins.errors import ConfigError
from hami_plugins.model.units import VendorName
from hami_plugins.model.vendor_names import ResourceNames
from tests import acme
from tests.builders import ACME, CORES, COUNT, MEMORY, a_container

OTHER = replace(
    acme.SPEC,
    name=VendorName("Other"),
    resources=ResourceNames(count="other.example/card"),
    keys=replace(acme.SPEC.keys, allocated="hami.io/other-devices-allocated"),
)


def test_a_registry_finds_vendors_by_name_and_by_resource() -> None:
    registry = Registry([acme.SPEC, OTHER])
    assert [spec.name for spec in registry] == [ACME, "Other"]
    assert len(registry) == 2
    assert ACME in registry
    assert "Nobody" not in registry
    assert registry[ACME] is acme.SPEC
    assert registry.get("Other") is OTHER
    assert registry.get("Nobody") is None
    assert registry.owner_of(MEMORY) is acme.SPEC
    assert registry.owner_of("cpu") is None
    assert set(registry.resources) == {COUNT, MEMORY, CORES, "other.example/card"}


def test_a_vendor_registered_twice_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match="vendor Acme is registered twice"):
        Registry([acme.SPEC, acme.SPEC])


def test_two_vendors_that_claim_one_resource_are_refused_with_both_names() -> None:
    with pytest.raises(ConfigError, match=r"Other and Acme both claim acme\.example/card"):
        Registry([acme.SPEC, replace(OTHER, resources=ResourceNames(count=COUNT))])


def test_two_vendors_that_write_one_assignment_are_refused_with_both_names() -> None:
    with pytest.raises(ConfigError, match=r"Other and Acme both write hami\.io/acme-devices-allocated"):
        Registry([acme.SPEC, replace(OTHER, keys=acme.SPEC.keys)])


def test_a_vendor_of_another_package_stands_after_the_built_in_ones_or_in_the_place_of_the_one_it_replaces() -> None:
    mine = replace(acme.SPEC, title="Mine", replaces=True)
    assert [spec.title for spec in replaced([acme.SPEC], [OTHER])] == ["Acme One", "Acme One"]
    assert [spec.title for spec in replaced([acme.SPEC, OTHER], [mine])] == ["Mine", "Acme One"]
    assert Registry(replaced([acme.SPEC], [OTHER, mine]))[ACME].title == "Mine"


def test_a_replacement_keeps_the_resource_names_that_were_set_and_adds_its_older_ones() -> None:
    renamed = replace(acme.SPEC, resources=replace(acme.SPEC.resources, count="renamed.example/card"))
    names = replace(acme.SPEC.resources, older=("old.example/card",))
    mine = replace(
        acme.SPEC, resources=names, counted_by_scheduler=(names.count, names.cores, *names.older), replaces=True
    )
    (found,) = replaced([renamed], [mine])
    assert found.resources.count == "renamed.example/card"
    assert found.counted_by_scheduler == ("renamed.example/card", CORES, "old.example/card")
    assert Registry([found]).owner_of("old.example/card") is found


def test_nothing_can_be_replaced_that_is_not_there() -> None:
    with pytest.raises(ConfigError, match="vendor Acme is to replace a built-in one of that name, and there is none"):
        replaced([OTHER], [replace(acme.SPEC, replaces=True)])


def test_a_container_asks_every_vendor_whose_resources_it_names_in_the_registrys_order() -> None:
    registry = Registry([acme.SPEC, OTHER])
    limits = {"other.example/card": 1, COUNT: 1, "cpu": 1}
    assert registry.asked_by(a_container({"cpu": 1})) == []
    assert registry.asked_by(a_container({"other.example/card": 1})) == [OTHER]
    assert registry.asked_by(a_container(requests={MEMORY: 1})) == [acme.SPEC]
    assert registry.asked_by(a_container(limits)) == [acme.SPEC, OTHER]
