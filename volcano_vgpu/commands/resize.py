"""The work of ``resize``: ask for another amount of memory of a running slice, and wait for the answer."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple, Protocol

from hami_plugins.cli.kit import output
from hami_plugins.cli.kit.edge import Exit
from hami_plugins.errors import ConfigError
from hami_plugins.kube import paths
from hami_plugins.kube.client import connect
from hami_plugins.model.units import INT32_MAX, MiB
from hami_plugins.model.vendor import VendorSpec
from hami_plugins.vendors import nvidia, volcano
from hami_plugins.wire import lenient, pods, resizes
from hami_plugins.wire.fields import Json
from hami_plugins.wire.pod_devices import AssignedDevice
from volcano_vgpu.commands.agent import CALL_SECONDS, COMPONENT, AgentInputs
from volcano_vgpu.core.assignments import allocated_devices

LOOK_SECONDS: Final = 1.0

Held = Mapping[str, tuple[AssignedDevice, ...]]
"""The cards of each container that has some."""


class ResizeOrder(NamedTuple):
    """What is asked for. ``wait`` is seconds."""

    pod: str
    memory: int
    container: str | None
    wait: float
    dry_run: bool


class PodApi(Protocol):
    """The part of the API that is needed."""

    def get(self, path: str) -> Json:
        """See ``KubeApi``."""

    def merge_patch(self, path: str, body: Json) -> Json:
        """See ``KubeApi``."""


def run_resize(inputs: AgentInputs, order: ResizeOrder) -> int:
    """Ask and wait. Raises ``ConfigError`` for what cannot be asked for, ``KubeError`` where the pod is not reached."""
    client = connect(kubeconfig=inputs.kubeconfig, context=inputs.context, component=COMPONENT).within(CALL_SECONDS)
    return resize(client, order, specs=(inputs.settings().spec, nvidia.SPEC))


def resize(  # noqa: PLR0913 - what tests choose
    api: PodApi,
    order: ResizeOrder,
    *,
    specs: Sequence[VendorSpec] = (volcano.SPEC, nvidia.SPEC),
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> int:
    """The same with an API and clocks that are given."""
    path = _path(order.pod)
    raw = api.get(path)
    held = _held(raw, specs)
    name = container_of(raw, held, order)
    stamp = now().isoformat(timespec="seconds").replace("+00:00", "Z")
    ask = f"{resizes.encode({name: MiB(order.memory)})} {stamp}"
    if order.dry_run:
        output.line(f"would set {resizes.ASKED_KEY}: {ask}")
        return Exit.FINE
    metadata = lenient.inside(raw, "metadata")
    about = {"uid": metadata.get("uid"), "resourceVersion": metadata.get("resourceVersion")}
    raw = api.merge_patch(path, {"metadata": {**about, "annotations": {resizes.ASKED_KEY: ask}}})
    until = clock() + order.wait
    while (said := _answer(raw, name, held[name][0].memory, order.memory, ask)) is None and clock() < until:
        sleep(LOOK_SECONDS)
        raw = api.get(path)
    if said is None:
        found = resizes.decode(_annotations(raw))
        message = "" if found is None else found.message
        output.line(f"not in force after {order.wait:g} s: {message}", "warn")
        output.line("`hami-plugins explain pod` shows it later; does the allocator run, and the agent of its node?")
        return Exit.FINDINGS
    output.line(said, "bad" if "refused" in said else "good")
    return Exit.FINDINGS if "refused" in said else Exit.FINE


def container_of(raw: Json, held: Held, order: ResizeOrder) -> str:
    """The container that is meant. Raises ``ConfigError`` where it is not certain, or has no card of ours."""
    if not 0 < order.memory <= INT32_MAX:
        raise ConfigError(f"--memory {order.memory}: expected MiB from 1 to {INT32_MAX}")
    if pods.finished(raw) or not pods.node_of(raw):
        raise ConfigError(f"{order.pod}: the pod does not run; its request says how much memory it gets")
    if not held:
        raise ConfigError(f"{order.pod}: it has no cards of Volcano's vGPU or of NVIDIA")
    if order.container is None and len(held) > 1:
        raise ConfigError(f"{order.pod}: containers {', '.join(sorted(held))} have cards; name one with --container")
    name = order.container or next(iter(held))
    if name not in held:
        raise ConfigError(f"--container {name}: it has no card; {', '.join(sorted(held))} have")
    if len(held[name]) != 1:
        raise ConfigError(f"container {name} has {len(held[name])} cards; only one with a single card can be resized")
    return name


def _held(raw: Json, specs: Iterable[VendorSpec]) -> Held:
    for spec in specs:
        held = {name: devices for name, devices in allocated_devices(raw, spec).items() if devices}
        if held:
            return held
    return {}


def _answer(raw: Json, name: str, given: MiB, memory: int, ask: str) -> str | None:
    """What became of an ask, ``None`` as long as that is open."""
    found = resizes.decode(_annotations(raw))
    if found is None or found.ask != ask:
        return f"refused: another ask took the place of this one: {'none' if found is None else found.ask}"
    if found.refused:
        return f"refused: {found.refused}"
    if found.booked.get(name, given) == memory == found.in_force.get(name, given):
        return f"{memory} MiB are booked and in force in container {name}"
    return None


def _annotations(raw: Json) -> Mapping[str, str]:
    return lenient.texts(lenient.inside(raw, "metadata").get("annotations"))


def _path(text: str) -> str:
    parts = text.removeprefix("pod/").split("/")
    if len(parts) != 2 or not all(parts):
        raise ConfigError(f"{text}: expected pod/NAMESPACE/NAME")
    return paths.pod(parts[0], parts[1])
