"""Which pods a scheduler may ask about over plain HTTP, where anybody can ask.

A pod that the API server holds keeps these limits or asks for nothing that a node has; one that breaks them would make
every answer slow, and fill what is remembered.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from hami_plugins.engine.intake import PodInfo
from hami_plugins.errors import WireError
from hami_plugins.wire import lenient
from hami_plugins.wire.fields import Json
from hami_plugins.wire.pods import CONTAINER_LISTS

MOST_CONTAINERS: Final = 256
"""Containers and init containers of a pod."""

MOST_TEXT: Final = 256 * 1024
"""Bytes of all annotations of an object (Kubernetes ``TotalAnnotationSizeLimitB``)."""

MOST_NAME: Final = 253
"""Characters of a name (a DNS subdomain; a container's has 63)."""

MOST_CHOICES: Final = 1_024
"""Devices and models that a pod lists to be used or avoided."""

_PLACE: Final = "extender call: Pod"


def intake_of(raw: Json, read: Callable[[Json], PodInfo]) -> PodInfo:
    """What ``read`` finds that a pod asks for. Raises ``WireError``, for a pod that is larger than pods are as well."""
    _check(raw)
    intake = read(raw)
    _check_choices(intake)
    return intake


def _check(raw: Json) -> None:
    # Values of any other form are left to the reader.
    metadata, spec = lenient.inside(raw, "metadata"), lenient.inside(raw, "spec")
    text = sum(len(str(key)) + len(value) for key, value in lenient.texts(metadata.get("annotations")).items())
    if text > MOST_TEXT:
        raise WireError(_PLACE, "", f"has {text} bytes of annotations: limit is {MOST_TEXT}")
    containers = [each for listed in CONTAINER_LISTS for each in lenient.items(spec.get(listed))]
    if len(containers) > MOST_CONTAINERS:
        raise WireError(_PLACE, "", f"has {len(containers)} containers: limit is {MOST_CONTAINERS}")
    holders = (metadata, *map(lenient.mapping, containers))
    if any(len(str(holder.get(key, ""))) > MOST_NAME for holder in holders for key in ("name", "namespace")):
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
