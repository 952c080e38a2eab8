"""The names of PodGroups and quotas, as watches tell of them."""

from __future__ import annotations

from hami_plugins.kube.reflector import ObjectChange
from koordinator_adapter.server.gangs import WatchedNames


def added(name: str, namespace: str = "ml") -> ObjectChange:
    return ObjectChange("added", {"metadata": {"name": name, "namespace": namespace}}, f"uid-{namespace}-{name}")


def test_names_come_and_go_with_their_objects() -> None:
    names = WatchedNames()
    assert names.all == frozenset()
    names.changed(added("a"))
    names.changed(added("b"))
    before = names.all
    assert before == {"ml/a", "ml/b"}
    names.changed(ObjectChange("modified", {"metadata": {"name": "a", "namespace": "ml"}}, "uid-ml-a"))
    names.changed(ObjectChange("synced", None, ""))
    assert names.all is before
    names.changed(ObjectChange("deleted", None, "uid-ml-a"))
    names.changed(ObjectChange("deleted", {"metadata": {"name": "b", "namespace": "ml"}}, "uid-ml-b"))
    names.changed(ObjectChange("deleted", None, "uid-never-seen"))
    assert names.all == frozenset()


def test_a_quota_is_looked_for_by_its_name_alone() -> None:
    names = WatchedNames(bare=True)
    names.changed(added("q", "one"))
    names.changed(added("q", "two"))
    names.changed(ObjectChange("deleted", None, "uid-one-q"))
    assert names.all == {"q"}
