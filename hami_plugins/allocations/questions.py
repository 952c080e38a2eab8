"""Which pods a scheduler may ask about over plain HTTP, where anybody can ask.

A pod that the API server holds keeps these limits or asks for nothing that a node has; one that breaks them would make
every answer slow, and fill what is remembered.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from hami_plugins.engine.intake import PodInfo
from hami_plugins.errors import WireError

MOST_CONTAINERS: Final = 256
"""Containers and init containers of a pod."""

MOST_TEXT: Final = 256 * 1024
"""Bytes of all annotations of an object (Kubernetes ``TotalAnnotationSizeLimitB``)."""

MOST_NAME: Final = 253
"""Characters of a name (a DNS subdomain; a container's has 63)."""

MOST_CHOICES: Final = 1_024
"""Devices and models that a pod lists to be used or avoided."""

_PLACE: Final = "extender call: Pod"


def intake_of(raw: Mapping[str, Any], read: Callable[[Mapping[str, Any]], PodInfo]) -> PodInfo:
    """What ``read`` finds that a pod asks for. Raises ``WireError``, for a pod that is larger than pods are as well."""
    _check(raw)
    intake = read(raw)
    _check_choices(intake)
    return intake


def _check(raw: Mapping[str, Any]) -> None:
    # What has another form is left to the reader.
    metadata, spec = raw.get("metadata"), raw.get("spec")
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    if isinstance(annotations, dict):
        text = sum(len(str(key)) + len(value) for key, value in annotations.items() if isinstance(value, str))
        if text > MOST_TEXT:
            raise WireError(_PLACE, "", f"has {text} bytes of annotations: limit is {MOST_TEXT}")
    kinds = (spec.get(kind) for kind in ("containers", "initContainers")) if isinstance(spec, dict) else ()
    containers = [each for listed in kinds if isinstance(listed, list) for each in listed]
    if len(containers) > MOST_CONTAINERS:
        raise WireError(_PLACE, "", f"has {len(containers)} containers: limit is {MOST_CONTAINERS}")
    holders = (metadata, *containers)
    names = (
        str(holder.get(key, "")) for holder in holders if isinstance(holder, dict) for key in ("name", "namespace")
    )
    if any(len(name) > MOST_NAME for name in names):
        raise WireError(_PLACE, "", f"has a name of more than {MOST_NAME} characters")


def _check_choices(intake: PodInfo) -> None:
    selectors = {
        id(request.selector): request.selector
        for container in intake.demand.devices.containers
        for request in container.requests
    }
    for selector in selectors.values():
        lists = (selector.use_ids, selector.avoid_ids, selector.use_models, selector.avoid_models)
        listed = sum(len(each) for each in lists if each is not None)
        if listed > MOST_CHOICES:
            raise WireError(_PLACE, "", f"lists {listed} devices and models: limit is {MOST_CHOICES}")
