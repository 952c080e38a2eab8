"""A registry objects to vendors that collide; it never lets one overwrite another."""

from dataclasses import replace

import pytest

from hami_plugins.engine.registry import Registry
from hami_plugins.errors import ConfigError
from hami_plugins.model.units import VendorName
from hami_plugins.model.vendor import ResourceNames
from tests import acme
from tests.builders import ACME, CORES, COUNT, MEMORY

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
