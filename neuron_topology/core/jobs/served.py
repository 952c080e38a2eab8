"""What of a Volcano Job the cluster's API server keeps: members that the served definition lacks are dropped.

Volcano reads tier names (``highestTierName``) from 1.14. The definitions of 1.12 and 1.13 drop the name and default
``highestTierAllowed`` to 1: a gang that may span a zone would have to fit into the smallest part of the network, and
it waits for ever where there are no HyperNodes (Volcano ``release-1.13`` ``pkg/scheduler/actions/allocate``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hami_plugins.wire import lenient
from hami_plugins.wire.fields import Json

PATH: Final = "/openapi/v3/apis/batch.volcano.sh/v1alpha1"
"""Where every authenticated client may read it (``system:discovery``)."""

TIER_NAME: Final = "highestTierName"
TIER_NUMBER: Final = "highestTierAllowed"

_GROUP_KEY: Final = "x-kubernetes-group-version-kind"


def topology_members(openapi: Json) -> frozenset[str] | None:
    """The members of ``spec.networkTopology`` of the served Job, ``None`` where the document has no Job."""
    for schema in lenient.inside(openapi, "components", "schemas").values():
        if any(each.get("kind") == "Job" for each in lenient.mappings(lenient.mapping(schema).get(_GROUP_KEY))):
            return frozenset(_properties(schema, "spec", "networkTopology"))
    return None


def _properties(schema: Mapping[str, object], *path: str) -> Mapping[str, object]:
    for name in path:
        schema = lenient.inside(schema, "properties", name)
    return lenient.inside(schema, "properties")
