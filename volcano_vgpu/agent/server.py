"""The device plugin that the kubelet talks to (``trials.md`` K1 to K13).

``Allocate`` answers at once, whatever happens: the kubelet never asks twice, and a slow answer makes it hand out an id
twice. It gives a name and keeps no promise; ``PreStartContainer`` does.

Without CDI there are no device names. Then ``Allocate`` answers with the slice itself, if the
``GetPreferredAllocation`` just before it identified the pod without doubt, and ``PreStartContainer`` checks that it was
the right one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple, Protocol

import grpc
import structlog

from hami_plugins.errors import KubeError, KubeletError, WireError
from hami_plugins.node.kubelet import deviceplugin_pb2 as messages
from hami_plugins.node.kubelet.deviceplugin_pb2_grpc import DevicePluginServicer
from hami_plugins.node.kubelet.sockets import HEALTHY, UNHEALTHY
from hami_plugins.wire.fields import Json
from volcano_vgpu.agent.ports import Ports
from volcano_vgpu.agent.prestart import CallLog, PreStartHandler
from volcano_vgpu.core import edits
from volcano_vgpu.core.allocations import AllocationLookup, allocations_of
from volcano_vgpu.core.edits import Owner
from volcano_vgpu.core.identity import KIND
from volcano_vgpu.core.model import SharingMode, SlotId
from volcano_vgpu.core.preferred import AdmittedPod, Listed, admitted, preferred
from volcano_vgpu.core.refusals import ContainerRefusal, RefusalCode
from volcano_vgpu.core.shares import AllocatedContainer
from volcano_vgpu.core.slots import Slots

_log = structlog.get_logger(__name__)

NAMED_SECONDS: Final = 5.0
"""How long the pod of a ``GetPreferredAllocation`` is taken for that of the next ``Allocate``; the kubelet needs ms."""


STREAMS: Final = 8
"""Open ``ListAndWatch`` at the same time: each keeps a thread, and pods that start need some."""


class Slot(NamedTuple):
    """One slot as the kubelet sees it; ``numa`` is the node of its card, if it is known."""

    id: SlotId
    healthy: bool = True
    numa: int | None = None


class Watcher(Protocol):
    """Who counts the calls of the kubelet; ``code`` is empty for one that was answered."""

    def called(self, method: str, seconds: float, code: str) -> None:
        """A call has come to its end."""


class Uncounted:
    """Counts nothing."""

    def called(self, method: str, seconds: float, code: str) -> None:
        """See ``Watcher``."""


class _Named(NamedTuple):
    """The pod that was under admission when the kubelet asked for a preference, and until when that holds."""

    pod: AdmittedPod
    size: int
    until: float


class VolcanoDevicePlugin(DevicePluginServicer):
    """The service. ``cards`` are the slots of each card, ``nonce`` gives 12 fresh hex digits, ``clock`` seconds."""

    def __init__(  # noqa: PLR0913 - one parameter for each thing from outside
        self,
        ports: Ports,
        *,
        cards: Callable[[], Slots],
        nonce: Callable[[], str],
        clock: Callable[[], float],
        watcher: Watcher | None = None,
        cdi: bool = True,
    ) -> None:
        self._ports = ports
        self._cards = cards
        self._nonce = nonce
        self._clock = clock
        self._watcher = watcher or Uncounted()
        self._cdi = cdi
        self._book = CallLog(clock)
        self._starter = PreStartHandler(ports, self._book)
        self._changed = threading.Condition()
        self._offered: tuple[Slot, ...] = ()
        self._version = 0
        self._closed = False
        self._listening = 0
        self._named: _Named | None = None

    @property
    def listening(self) -> bool:
        """Whether a kubelet has ``ListAndWatch`` open."""
        return self._listening > 0

    def offer(self, slots: Iterable[Slot]) -> None:
        """Tell the kubelet, and every kubelet to come, which slots there are; nothing is sent where nothing differs."""
        offered = tuple(slots)
        with self._changed:
            if offered != self._offered:
                self._offered = offered
                self._version += 1
                self._changed.notify_all()

    def close(self) -> None:
        """End every ``ListAndWatch``, now and from now on."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def GetDevicePluginOptions(  # noqa: N802 - the protocol's name
        self, _request: messages.Empty, _context: grpc.ServicerContext
    ) -> messages.DevicePluginOptions:
        """What the kubelet may call."""
        return OPTIONS

    def ListAndWatch(  # noqa: N802 - the protocol's name
        self, _request: messages.Empty, context: grpc.ServicerContext
    ) -> Iterator[messages.ListAndWatchResponse]:
        """The slots, again whenever they change, until the kubelet goes away or the plugin closes."""
        context.add_callback(self._wake)
        sent = -1
        if self._listened(1) > STREAMS:
            self._listened(-1)
            context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, f"{STREAMS} streams are open: a kubelet needs one")
        try:
            while True:
                with self._changed:
                    while self._version == sent and not self._ended(context):
                        self._changed.wait()
                    if self._ended(context):
                        return
                    sent, offered = self._version, self._offered
                yield messages.ListAndWatchResponse(devices=[_device(slot) for slot in offered])
        finally:
            self._listened(-1)

    def GetPreferredAllocation(  # noqa: N802 - the protocol's name
        self, request: messages.PreferredAllocationRequest, _context: grpc.ServicerContext
    ) -> messages.PreferredAllocationResponse:
        """Slots of the allocated cards. No preference where anything is in doubt: an error rejects the pod."""
        started = self._clock()
        try:
            found = [self._preferred(each) for each in request.container_requests]
        except Exception:  # noqa: BLE001 - whatever is wrong here, a pod must not be rejected for good because of it
            _log.exception("preference_failed")
            found = [messages.ContainerPreferredAllocationResponse() for _ in request.container_requests]
        self._watcher.called("GetPreferredAllocation", self._clock() - started, "")
        return messages.PreferredAllocationResponse(container_responses=found)

    def Allocate(  # noqa: N802 - the protocol's name
        self, request: messages.AllocateRequest, context: grpc.ServicerContext
    ) -> messages.AllocateResponse:
        """A name that no other call ever gets, in microseconds. Without CDI: the slice, or a refusal."""
        started = self._clock()
        answers: list[messages.ContainerAllocateResponse] = []
        for each in request.container_requests:
            answer = self._allocated([SlotId(slot) for slot in each.devices_ids])
            if isinstance(answer, ContainerRefusal):
                self._refuse("Allocate", started, answer, context)
            else:
                answers.append(answer)
        self._watcher.called("Allocate", self._clock() - started, "")
        return messages.AllocateResponse(container_responses=answers)

    def PreStartContainer(  # noqa: N802 - the protocol's name
        self, request: messages.PreStartContainerRequest, context: grpc.ServicerContext
    ) -> messages.PreStartContainerResponse:
        """Make the container's name mean its slice, or say why not: the kubelet asks again in a while."""
        started = self._clock()
        refusal = self._starter.start(frozenset(map(SlotId, request.devices_ids)))
        if refusal is not None:
            self._refuse("PreStartContainer", started, refusal, context)
        self._watcher.called("PreStartContainer", self._clock() - started, "")
        return messages.PreStartContainerResponse()

    def _listened(self, more: int) -> int:
        """How many streams there are now."""
        with self._changed:
            self._listening += more
            return self._listening

    def _ended(self, context: grpc.ServicerContext) -> bool:
        return self._closed or not context.is_active()

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _refuse(self, method: str, started: float, refusal: ContainerRefusal, context: grpc.ServicerContext) -> None:
        self._watcher.called(method, self._clock() - started, refusal.code)
        _log.warning("call_refused", method=method, reason=refusal.code, error=refusal.text)
        status = grpc.StatusCode.UNAVAILABLE if refusal.heals else grpc.StatusCode.FAILED_PRECONDITION
        context.abort(status, refusal.text)

    def _preferred(
        self, request: messages.ContainerPreferredAllocationRequest
    ) -> messages.ContainerPreferredAllocationResponse:
        self._named = None
        try:
            recorded = self._starter.recorded()
            pod = admitted(self._listed(), self._known, self._ports.offer())
        except (WireError, KubeError, KubeletError, OSError) as error:
            _log.warning("no_preference", error=str(error))
            return messages.ContainerPreferredAllocationResponse()
        if pod is not None:
            self._named = _Named(pod, request.allocation_size, self._clock() + NAMED_SECONDS)
        slots = self._cards()
        found = preferred(
            request.allocation_size,
            available=request.available_deviceIDs,
            required=request.must_include_deviceIDs,
            cards=[slots.slots_of(card) for card in (() if pod is None else pod.cards)],
            busy=self._book.busy(self._starter.held(recorded)),
        )
        return messages.ContainerPreferredAllocationResponse(deviceIDs=found)

    def _known(self, namespace: str, name: str) -> Json | None:
        """The pod from the watch, or read where the kubelet was faster than that."""
        return self._ports.pods.by_name(namespace, name) or self._ports.pods.read(namespace, name)

    def _listed(self) -> Iterator[Listed]:
        resource = self._ports.resource
        for row in self._ports.listed():
            ids = row.device_ids if row.resource == resource else frozenset()
            yield Listed(row.namespace, row.pod, row.container, ids)

    def _allocated(self, slots: list[SlotId]) -> messages.ContainerAllocateResponse | ContainerRefusal:
        named, self._named = self._named, None
        nonce = f"{min(slots, default='none')}-{self._nonce()}"
        if not self._cdi:
            answer = self._with_slice(nonce, frozenset(slots), named)
            if isinstance(answer, ContainerRefusal):
                return answer
        else:
            answer = messages.ContainerAllocateResponse(cdi_devices=[messages.CDIDevice(name=f"{KIND}={nonce}")])
        self._book.add(nonce, frozenset(slots))
        return answer

    def _with_slice(
        self, nonce: str, slots: frozenset[SlotId], named: _Named | None
    ) -> messages.ContainerAllocateResponse | ContainerRefusal:
        """The slice of the pod under admission; its start checks that it was the right one."""
        raw = None
        if named is not None and named.size == len(slots) and self._clock() < named.until:
            raw = self._ports.pods.get(named.pod.pod_uid)
        if named is None or raw is None:
            return ContainerRefusal(
                RefusalCode.NO_CDI,
                f"without CDI the agent cannot tell which pod asks for {', '.join(sorted(slots))}. Turn "
                "CDI on: containerd from 1.7 on, enable_cdi = true in the CRI plugin (2.0: the default); CRI-O from "
                "1.23 on has it. Then restart the agent and create the pod again",
                heals=False,
            )
        container, uid, offer = named.pod.container, named.pod.pod_uid, self._ports.offer()
        question = AllocationLookup(uid=uid, held={container: slots}, first=self._ports.pods.first(uid))
        answer = allocations_of(raw, question, offer)[container]
        if not isinstance(answer, AllocatedContainer):
            return answer
        owner = Owner(pod_uid=uid, container=container, raw=edits.container_in(raw, container))
        settings = self._ports.settings()
        wrong = None if settings.mode is SharingMode.MIG else self._ports.directories.make([owner.directory])
        return wrong or edits.answer(nonce, edits.edits_of(answer, owner, settings, offer.inventory))


OPTIONS: Final = messages.DevicePluginOptions(pre_start_required=True, get_preferred_allocation_available=True)


def _device(slot: Slot) -> messages.Device:
    topology = None
    if slot.numa is not None and slot.numa >= 0:
        topology = messages.TopologyInfo(nodes=[messages.NUMANode(ID=slot.numa)])
    return messages.Device(ID=slot.id, health=HEALTHY if slot.healthy else UNHEALTHY, topology=topology)
