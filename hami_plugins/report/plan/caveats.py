"""Where Volcano 1.14 does something else than a plan says, because the plan does what people would want.

Each is a rule that we keep and Volcano does not (``vendors.volcano``); it is said beside every pod that it concerns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from hami_plugins.engine.intake import Intake
from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.model.decisions import Decision, Placed
from hami_plugins.model.devices import Instance
from hami_plugins.model.requests import ContainerKind, DeviceRequest
from hami_plugins.model.vendor import Dialect
from hami_plugins.model.verdicts import NoFit, Reason
from hami_plugins.vendors.volcano import GROUP

HEALTH: Final = "Volcano does not look at health: it may give the pod an unhealthy card"
IDS: Final = "Volcano before 1.16 does not look at lists of card ids: it may choose other cards"
INIT: Final = "Volcano counts init containers and sidecars for the node's sums alone and gives them no cards"
GANG: Final = "Volcano before 1.15 does not keep the pods of a gang on different cards"
SLOTS: Final = "Volcano may give containers of the pod the same MIG slot"


def of(intake: Intake, decision: Decision, snapshot: ClusterSnapshot) -> tuple[str, ...]:
    """What Volcano may do otherwise with a decided pod; nothing for pods that do not ask for its devices."""
    if intake.dialect is not Dialect.VOLCANO:
        return ()
    requests = [request for container in intake.demand.devices.containers for request in container.requests]
    return (*_by_request(intake, requests), *_by_decision(decision, snapshot))


def _by_request(intake: Intake, requests: Sequence[DeviceRequest]) -> Iterator[str]:
    if any(request.selector.names_ids for request in requests):
        yield IDS
    if any(each.requests and each.kind is not ContainerKind.APP for each in intake.demand.devices.containers):
        yield INIT
    if any(request.option(GROUP) is not None for request in requests):
        yield GANG


def _by_decision(decision: Decision, snapshot: ClusterSnapshot) -> Iterator[str]:
    if not isinstance(decision, Placed):
        reasons = {reason for _, why in decision.by_node if isinstance(why, NoFit) for reason, _ in why.reasons}
        if Reason.HEALTH in reasons:
            yield HEALTH
        return
    entry = snapshot.nodes[snapshot.position[decision.node]]
    vendors = {share.vendor for share in decision.grants()}
    if any(device.vendor in vendors and not device.healthy for device in entry.state.shape.devices):
        yield HEALTH
    cut = Counter(share.device for share in decision.grants() if isinstance(share.mark, Instance))
    if any(count > 1 for count in cut.values()):
        yield SLOTS
