"""What the adapter takes out of a cluster: what it has put there, and nothing of an administrator's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from hami_plugins.kube import paths
from hami_plugins.kube.port import Collection
from koordinator_adapter.core.translation.vocabulary import ISOLATION
from koordinator_adapter.server.cleanup import cleaned

Raw = dict[str, Any]


class Listing:
    """An API server that has nodes and no Device objects."""

    def __init__(self, *nodes: Raw) -> None:
        self.nodes = list(nodes)

    def pages(self, collection: Collection, **_: object) -> Iterator[list[Raw]]:
        yield self.nodes if collection.path == paths.NODES else []


def labelled(name: str, manager: str | None) -> Raw:
    """A node with the label, written by this field manager; ``None`` if the writer is unknown."""
    fields: Raw = {"f:metadata": {"f:labels": {f"f:{ISOLATION}": {}}}}
    managed = {} if manager is None else {"managedFields": [{"manager": manager, "fieldsV1": fields}]}
    return {"metadata": {"name": name, "labels": {ISOLATION: "HAMi-core"}, **managed}}


def removed(*nodes: Raw, labels: bool = True) -> list[str]:
    return list(cleaned(Listing(*nodes), labels=labels, dry_run=True))  # type: ignore[arg-type]


def test_the_label_that_an_administrator_wrote_stays() -> None:
    assert removed(labelled("a", "kubectl-label"), labelled("b", "hami-plugins")) == [f"labels of node b: {ISOLATION}"]


@pytest.mark.parametrize("manager", ["hami-plugins", None])
def test_the_label_of_our_own_goes_only_where_that_is_wanted(manager: str | None) -> None:
    assert removed(labelled("a", manager)) == [f"labels of node a: {ISOLATION}"]
    assert removed(labelled("a", manager), labels=False) == []
