"""What node pools become in a redacted snapshot: their names get pseudonyms, and the labels of their nodes the same."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from hami_plugins.inputs.snapshots.pseudonyms import Named
from hami_plugins.inputs.snapshots.walk import Walk
from hami_plugins.inputs.snapshots.walk_rules import (
    AMOUNTS,
    CONDITIONS,
    LABELS,
    NAMESPACE,
    TIME,
    WORD,
    Rule,
    each_of,
    members,
    name_of,
    of_text,
    requirement,
)
from hami_plugins.model.node_pools import ZONE
from hami_plugins.wire import karpenter, node_groups

_NAME_LINE: Final = re.compile(r"^- name: (.*)$", re.MULTILINE)
_NO_UUID: Final = "00000000-0000-0000-0000-000000000000"


def _zone(walk: Walk, text: str) -> str:
    return walk.label(ZONE, text)


def _group(walk: Walk, text: str) -> str:
    return text if text in karpenter.NODE_CLASSES else walk.secret(text)


def _scaling_group(walk: Walk, match: re.Match[str]) -> str:
    """The name of an Auto Scaling group, which has that of its managed node group in it."""
    managed = node_groups.managed_name(match[1])
    if managed:
        return f"- name: eks-{walk.names.name(Named.NODE_GROUP, managed)}-{_NO_UUID}"
    return f"- name: {walk.names.name(Named.NODE_GROUP, match[1])}"


def _status(walk: Walk, text: str) -> str:
    return _NAME_LINE.sub(lambda match: _scaling_group(walk, match), text)


_NODE_CLASS: Final = members(
    {
        "metadata": members({"name": name_of(Named.NODE_CLASS)}),
        "status": members(
            {
                "subnets": each_of(members({"zone": of_text(_zone)})),
                "capacityReservations": each_of(
                    members(
                        {
                            "availabilityZone": of_text(_zone),
                            "endTime": TIME,
                            "id": of_text(Walk.secret),
                            **dict.fromkeys(("instanceType", "reservationType", "state"), WORD),
                        }
                    )
                ),
                "conditions": CONDITIONS,
            }
        ),
    }
)

POOL_OBJECTS: Final[Mapping[str, Rule]] = {
    "NodePool": members(
        {
            "metadata": members({"name": name_of(Named.NODE_POOL), "deletionTimestamp": TIME}),
            "spec": members(
                {
                    "limits": AMOUNTS,
                    "replicas": Walk.whole,
                    "template": members(
                        {
                            "metadata": members({"labels": LABELS}),
                            "spec": members(
                                {
                                    "taints": each_of(requirement),
                                    "requirements": each_of(requirement),
                                    "nodeClassRef": members(
                                        {"group": of_text(_group), "kind": WORD, "name": name_of(Named.NODE_CLASS)}
                                    ),
                                }
                            ),
                        }
                    ),
                }
            ),
            "status": members({"nodes": Walk.whole, "resources": AMOUNTS, "conditions": CONDITIONS}),
        }
    ),
    **dict.fromkeys(karpenter.NODE_CLASSES.values(), _NODE_CLASS),
    "ConfigMap": members(
        {
            "metadata": members({"name": lambda _walk, _raw: node_groups.STATUS_NAME, "namespace": NAMESPACE}),
            "data": members({"status": of_text(_status)}),
        }
    ),
}
"""The handling of each kind that describes node pools."""
