"""Compares the allocation of a container with its request: the owner of the pod may write the annotation as well."""

from __future__ import annotations

from collections.abc import Sequence

from hami_plugins.engine.demand import request_of
from hami_plugins.engine.excess import DeviceExcess, excess_of, within
from hami_plugins.errors import InvalidRequestError, WireError
from hami_plugins.model.devices import AllocatedShare
from hami_plugins.model.dialect import Dialect
from hami_plugins.model.pods import Container, Pod
from hami_plugins.model.requests import ContainerKind
from volcano_vgpu.core.refusals import ContainerRefusal, RefusalCode
from volcano_vgpu.core.shares import ContainerShare, NodeOffer


def larger(
    container: Container, shares: Sequence[ContainerShare], pod: Pod, offer: NodeOffer
) -> ContainerRefusal | None:
    """Why these shares are more than the scheduler gives to this container; ``None`` where they are not."""
    spec = offer.spec
    try:
        asked = request_of(spec, container, pod)
    except (InvalidRequestError, WireError) as error:
        return ContainerRefusal(RefusalCode.REQUEST, str(error), heals=False)
    allocated = [_named(share, offer) for share in shares]
    excess = excess_of(spec, asked, allocated, offer.device)
    if excess is not None and _is_instance(excess, shares, offer):
        return None
    if excess is None:
        return None
    key = spec.keys.more if container.kind is not ContainerKind.APP and spec.keys.more else spec.keys.allocated
    return ContainerRefusal(
        RefusalCode.LARGER,
        f"{key} allocates {excess}: only a scheduler may write this annotation, and it allocates what is requested. "
        "Delete the pod, so that a scheduler places it again",
        heals=False,
    )


def requested(
    container: Container, shares: Sequence[AllocatedShare], pod: Pod, offer: NodeOffer
) -> tuple[AllocatedShare, ...]:
    """The shares of an annotation, no larger than what the container requests; none for a request without meaning."""
    try:
        return within(request_of(offer.spec, container, pod), shares, offer.device)
    except (InvalidRequestError, WireError):
        return ()


def _is_instance(excess: DeviceExcess, shares: Sequence[ContainerShare], offer: NodeOffer) -> bool:
    """HAMi books a whole MIG instance, which is larger than what is asked of it, so that only their number counts."""
    if offer.spec.dialect is not Dialect.HAMI or excess.resource == offer.spec.resources.count:
        return False
    return all(share.visible != share.card for share in shares)


def _named(share: ContainerShare, offer: NodeOffer) -> AllocatedShare:
    given = share.assigned
    return AllocatedShare(
        device=share.card, vendor=offer.spec.name, word=given.word, memory=given.memory, cores=given.cores
    )
