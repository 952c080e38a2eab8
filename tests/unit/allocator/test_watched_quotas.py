"""ResourceQuotas as the watch shows them."""

from __future__ import annotations

from typing import Any, Literal

from hami_plugins.allocator.app import product_of
from hami_plugins.allocator.locked_cache import LockedAllocationCache
from hami_plugins.allocator.settings import AllocatorSettings
from hami_plugins.engine.registry import Registry
from hami_plugins.kube.reflector import ObjectChange
from hami_plugins.model.units import MiB
from hami_plugins.vendors import nvidia

BOOKS = product_of(AllocatorSettings(), Registry([nvidia.SPEC]))


def quota(cache: LockedAllocationCache, memory: str, kind: Literal["modified", "deleted"] = "modified") -> None:
    hard: dict[str, Any] = {"limits.nvidia.com/gpumem": memory}
    raw = {"metadata": {"name": "q", "namespace": "team", "uid": "u"}, "spec": {"hard": hard}}
    cache.quota_changed(ObjectChange(kind, raw, "u"))


def test_a_quota_that_cannot_be_read_keeps_the_limits_that_it_had_and_is_counted() -> None:
    cache = LockedAllocationCache(BOOKS, keep=90.0, clock=lambda: 0.0)
    quota(cache, "1000")
    quota(cache, "a lot")
    assert [each.memory for each in cache.left("team").values()] == [MiB(1_000)]
    assert cache.problems == 1
    quota(cache, "2000")
    assert [each.memory for each in cache.left("team").values()] == [MiB(2_000)]
    quota(cache, "", "deleted")
    cache.quota_changed(ObjectChange("deleted", None, "unknown"))
    cache.quota_changed(ObjectChange("modified", None, "u"))
    assert not cache.left("team")
