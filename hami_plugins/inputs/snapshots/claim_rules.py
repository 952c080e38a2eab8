"""What objects of Dynamic Resource Allocation become in a redacted snapshot.

Names of drivers, pools, devices, claims and attributes get pseudonyms of their own kinds, the same in selectors. A
selector keeps its form: comparisons for equality have the same answers, those by a piece or the order of a text need
not.
"""

from __future__ import annotations

import re
from typing import Final

from hami_plugins.engine.claims.selectors import OF_KUBERNETES
from hami_plugins.inputs.snapshots.pseudonyms import Named
from hami_plugins.inputs.snapshots.walk import Walk
from hami_plugins.inputs.snapshots.walk_rules import (
    NAMESPACE,
    TIME,
    WORD,
    Rule,
    amount,
    by_key,
    each_of,
    field_requirement,
    members,
    name_of,
    of_text,
    requirement,
)

_TOKENS: Final = re.compile(
    r"""(?P<text>[rR]?(?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'))|(?P<name>[A-Za-z_]\w*)|//[^\n]*""", re.ASCII
)
_INDEX: Final = re.compile(r"(?<!\bin)(?<!\bin )(?<=[\w\])])\s*\[$", re.ASCII)
"""What is before an index, and not before the first item of a list."""

_SEMVER: Final = re.compile(r"\d{1,9}\.\d{1,9}\.\d{1,9}", re.ASCII)


def _expression(walk: Walk, text: str) -> str:
    """A CEL expression: its texts as values or names, its other names as attributes; comments do not stay."""
    return _TOKENS.sub(lambda found: _token(walk, found), text)


def _token(walk: Walk, found: re.Match[str]) -> str:
    name, text = found["name"], found["text"]
    if name is not None:
        called = found.string[found.end() :].lstrip().startswith("(")
        return name if name == "cel" or (called and name in OF_KUBERNETES) else walk.names.name(Named.ATTRIBUTE, name)
    if text is None:
        return ""
    inside = text.lstrip("rR")[1:-1]
    before = found.string[: found.start()].rstrip()
    if _INDEX.search(before) or found.string[found.end() :].lstrip().startswith("in "):
        of_domain = re.search(r"(?:attributes|capacity)\s*\[$", before) is not None
        return f'"{walk.names.name(Named.DRIVER if of_domain else Named.ATTRIBUTE, inside)}"'
    if re.search(r"driver\s*[!=]=$", before):
        return f'"{walk.names.name(Named.DRIVER, inside)}"'
    return f'"{_value(walk, inside)}"'


def _value(walk: Walk, text: str) -> str:
    """The value of an attribute, or a text that one is compared with."""
    return text if _SEMVER.fullmatch(text) else walk.word(text)


def _qualified(walk: Walk, name: str) -> str:
    """The name of an attribute or a capacity, with or without a domain."""
    domain, slash, key = name.rpartition("/")
    made = walk.names.name(Named.ATTRIBUTE, key)
    return f"{walk.names.name(Named.DRIVER, domain)}/{made}" if slash else made


def _of_request(walk: Walk, text: str) -> str:
    """A request, or one alternative of it."""
    return "/".join(walk.names.name(Named.REQUEST, part) if part else part for part in text.split("/"))


def _known(rules: dict[str, Rule]) -> Rule:
    """An object with these members; any other is only marked."""

    def rule(walk: Walk, value: object) -> object:
        if not isinstance(value, dict):
            return walk.whole(value)
        return {
            name if name in rules else walk.word(str(name)): rules[name](walk, inner) if name in rules else True
            for name, inner in value.items()
        }

    return rule


def _by_attribute(inner: Rule) -> Rule:
    def rule(walk: Walk, value: object) -> object:
        if not isinstance(value, dict):
            return walk.whole(value)
        return {_qualified(walk, str(name)): inner(walk, each) for name, each in value.items()}

    return rule


_AMOUNT: Final = of_text(lambda walk, text: amount(walk, "", text))
_AMOUNTS: Final = by_key(_qualified, amount)
_VALUE: Final = of_text(_value)
_REQUEST: Final = of_text(_of_request)
_ATTRIBUTE: Final = of_text(_qualified)
_COUNTERS: Final = _by_attribute(members({"value": _AMOUNT}))
_SELECTORS: Final = each_of(_known({"cel": members({"expression": of_text(_expression)})}))
_TERMS: Final = members(
    {
        "nodeSelectorTerms": each_of(
            members({"matchExpressions": each_of(requirement), "matchFields": each_of(field_requirement)})
        )
    }
)
_NODES: Final[dict[str, Rule]] = {"nodeName": name_of(Named.NODE), "nodeSelector": _TERMS, "allNodes": Walk.whole}
_POLICY: Final = members(
    {
        "default": _AMOUNT,
        "validValues": each_of(_AMOUNT),
        "validRange": members(dict.fromkeys(("min", "max", "step"), _AMOUNT)),
    }
)
_OF_DEVICE: Final[dict[str, Rule]] = {
    "name": name_of(Named.DEVICE),
    **_NODES,
    "attributes": _by_attribute(members({"int": Walk.whole, "bool": Walk.whole, "string": _VALUE, "version": _VALUE})),
    "capacity": _by_attribute(members({"value": _AMOUNT, "requestPolicy": _POLICY})),
    "consumesCounters": each_of(members({"counterSet": _ATTRIBUTE, "counters": _COUNTERS})),
    "taints": each_of(requirement),
    "allowMultipleAllocations": Walk.whole,
    "bindingConditions": each_of(WORD),
}
_OF_CHOICE: Final[dict[str, Rule]] = {
    "name": _REQUEST,
    "deviceClassName": name_of(Named.DEVICE_CLASS),
    "selectors": _SELECTORS,
    "allocationMode": WORD,
    "count": Walk.whole,
    "adminAccess": Walk.whole,
    "tolerations": each_of(requirement),
    "capacity": _known({"requests": _AMOUNTS}),
}
_OF_CLAIM: Final = _known(
    {
        "devices": _known(
            {
                "requests": each_of(
                    _known({**_OF_CHOICE, "exactly": _known(_OF_CHOICE), "firstAvailable": each_of(_known(_OF_CHOICE))})
                ),
                "constraints": each_of(
                    _known(
                        {"requests": each_of(_REQUEST), "matchAttribute": _ATTRIBUTE, "distinctAttribute": _ATTRIBUTE}
                    )
                ),
            }
        )
    }
)
_RESULT: Final = members(
    {
        "request": _REQUEST,
        "driver": name_of(Named.DRIVER),
        "pool": name_of(Named.POOL),
        "device": name_of(Named.DEVICE),
        "adminAccess": Walk.whole,
        "shareID": of_text(Walk.secret),
        "consumedCapacity": _AMOUNTS,
    }
)

CLAIMS_OF_PODS: Final[dict[str, Rule]] = {
    "resourceClaims": each_of(
        members(
            {
                "name": _REQUEST,
                "resourceClaimName": name_of(Named.CLAIM),
                "resourceClaimTemplateName": name_of(Named.CLAIM),
            }
        )
    )
}
MADE_FOR_PODS: Final = each_of(members({"name": _REQUEST, "resourceClaimName": name_of(Named.CLAIM)}))
USED_BY_CONTAINERS: Final = each_of(members({"name": _REQUEST, "request": _REQUEST}))
"""What pods say of claims: in their spec, in their status, and in their containers."""

CLAIM_OBJECTS: Final[dict[str, Rule]] = {
    "ResourceSlice": members(
        {
            "metadata": members({"name": name_of(Named.SLICE)}),
            "spec": members(
                {
                    "driver": name_of(Named.DRIVER),
                    "pool": members(
                        {
                            "name": name_of(Named.POOL),
                            "generation": Walk.whole,
                            "resourceSliceCount": Walk.whole,
                        }
                    ),
                    **_NODES,
                    "perDeviceNodeSelection": Walk.whole,
                    "sharedCounters": each_of(members({"name": _ATTRIBUTE, "counters": _COUNTERS})),
                    "devices": each_of(_known({**_OF_DEVICE, "basic": _known(_OF_DEVICE)})),
                }
            ),
        }
    ),
    "DeviceClass": members(
        {
            "metadata": members({"name": name_of(Named.DEVICE_CLASS), "creationTimestamp": TIME}),
            "spec": members({"selectors": _SELECTORS, "extendedResourceName": of_text(Walk.resource)}),
        }
    ),
    "ResourceClaim": members(
        {
            "metadata": members(
                {
                    "name": name_of(Named.CLAIM),
                    "namespace": NAMESPACE,
                    "deletionTimestamp": TIME,
                    "ownerReferences": each_of(
                        members({"kind": WORD, "name": name_of(Named.POD), "controller": Walk.whole})
                    ),
                }
            ),
            "spec": _OF_CLAIM,
            "status": members(
                {
                    "allocation": members({"devices": members({"results": each_of(_RESULT)}), "nodeSelector": _TERMS}),
                    "reservedFor": each_of(members({"name": name_of(Named.POD)})),
                }
            ),
        }
    ),
    "ResourceClaimTemplate": members(
        {
            "metadata": members({"name": name_of(Named.CLAIM), "namespace": NAMESPACE}),
            "spec": members({"spec": _OF_CLAIM}),
        }
    ),
}
"""The rules by kind."""
