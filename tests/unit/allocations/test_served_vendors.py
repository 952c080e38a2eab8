"""Which vendors' devices an allocator gives."""

from __future__ import annotations

import pytest

from hami_plugins.allocations.served_vendors import served_vendors
from hami_plugins.engine.registry import Registry
from hami_plugins.errors import ConfigError
from hami_plugins.vendors import BUILTIN

EVERY = Registry(BUILTIN)


def test_those_that_are_named_are_served_in_the_order_of_the_registry() -> None:
    found = served_vendors(EVERY, ("Volcano-vGPU", "NVIDIA"))
    assert [spec.name for spec in found] == ["NVIDIA", "Volcano-vGPU"]


@pytest.mark.parametrize("name", ["nvidia", "Koordinator"])
def test_another_name_is_refused_with_those_that_there_are(name: str) -> None:
    with pytest.raises(ConfigError, match=f"vendors: {name}: unknown vendor; the vendors are NVIDIA, MLU,") as refused:
        served_vendors(EVERY, ("NVIDIA", name))
    assert "Koordinator" not in str(refused.value).partition("the vendors are")[2]
