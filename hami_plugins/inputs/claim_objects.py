"""Objects of Dynamic Resource Allocation from listings and manifests, collected one by one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final, TypeVar

from hami_plugins.engine.claims.usage import resources_of
from hami_plugins.errors import WireError
from hami_plugins.model.claims import ClaimTemplate, DeviceClass, DynamicResources, ResourceClaim, ResourceSlice
from hami_plugins.wire import resource_claims, resource_slices

T = TypeVar("T")

KINDS: Final = ("ResourceSlice", "DeviceClass", "ResourceClaim", "ResourceClaimTemplate")
"""The kinds of ``resource.k8s.io`` that are read."""


class ClaimObjects:
    """Takes the objects in any order. Of two with one name the first counts."""

    def __init__(self) -> None:
        self._slices: dict[str, ResourceSlice] = {}
        self._classes: dict[str, DeviceClass] = {}
        self._claims: dict[str, ResourceClaim] = {}
        self._templates: dict[str, ClaimTemplate] = {}
        self._unread: Counter[str] = Counter()

    def takes(self, kind: str, raw: object) -> bool:
        """Whether an object is one of these; it is then taken. Raises ``WireError`` for one that cannot be read."""
        if kind not in KINDS or not isinstance(raw, Mapping) or not resource_slices.is_of_group(raw):
            return False
        try:
            self._take(kind, raw)
        except WireError:
            self._unread[kind] += 1
            raise
        return True

    def _take(self, kind: str, raw: object) -> None:
        match kind:
            case "ResourceSlice":
                found = resource_slices.resource_slice(raw)
                _put(self._slices, found.name, found, "resourceslice")
            case "DeviceClass":
                of = resource_slices.device_class(raw)
                _put(self._classes, of.name, of, "deviceclass")
            case "ResourceClaim":
                claim = resource_claims.resource_claim(raw)
                _put(self._claims, claim.full_name, claim, "resourceclaim")
            case _:
                template = resource_claims.claim_template(raw)
                _put(self._templates, template.full_name, template, "resourceclaimtemplate")

    def finish(self) -> DynamicResources:
        """Everything taken so far."""
        return resources_of(
            slices=self._slices.values(),
            classes=self._classes.values(),
            claims=self._claims.values(),
            templates=self._templates.values(),
            unread=self._unread,
        )


def _put(known: dict[str, T], name: str, found: T, kind: str) -> None:
    if name in known:
        raise WireError(f"{kind} {name}", name, "listed twice; the first counts")
    known[name] = found
