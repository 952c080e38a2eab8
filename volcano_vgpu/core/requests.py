"""Compares the allocation of a container with its request: the owner of the pod may write the annotation as well."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hami_plugins.engine.excess import excess_of, within
from hami_plugins.errors import InvalidRequestError, WireError
from hami_plugins.model.devices import AllocatedShare
from hami_plugins.model.pods import Container, Pod
from hami_plugins.model.requests import ContainerKind
from hami_plugins.vendors.volcano import request
from volcano_vgpu.core.refusals import ContainerRefusal, RefusalCode
from volcano_vgpu.core.shares import ContainerShare, NodeOffer


def larger(
    container: Container, shares: Iterable[ContainerShare], pod: Pod, offer: NodeOffer
) -> ContainerRefusal | None:
    """Why these shares are more than the scheduler gives to this container; ``None`` where they are not."""
    spec = offer.spec
    try:
        asked = request(spec, container, pod)
    except (InvalidRequestError, WireError) as error:
        return ContainerRefusal(RefusalCode.REQUEST, str(error), heals=False)
    allocated = [_named(share, offer) for share in shares]
    excess = excess_of(spec, asked, allocated, offer.device)
    if excess is None:
        return None
    key = spec.keys.allocated if container.kind is ContainerKind.APP else spec.keys.more
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
        return within(request(offer.spec, container, pod), shares, offer.device)
    except (InvalidRequestError, WireError):
        return ()


def _named(share: ContainerShare, offer: NodeOffer) -> AllocatedShare:
    given = share.assigned
    return AllocatedShare(
        device=share.card, vendor=offer.spec.name, word=given.word, memory=given.memory, cores=given.cores
    )
