"""One node in a process of its own: the embedded API server, an emulated kubelet, and pods as Volcano binds them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from hami_plugins.kube import paths
from hami_plugins.kube.client import KubeClient, connect_to
from hami_plugins.observe import logging
from hami_plugins.sandbox.apiserver import VOLCANO, ApiServer
from hami_plugins.sandbox.fleet import bare_node
from hami_plugins.sandbox.kubelet import EmulatedKubelet, Times
from tests import raw_objects
from tests.bench.processes import serve

NODE = "node-1"
NUMBER = "volcano.sh/vgpu-number"
AGENT = "agent"
"""The agent's bearer token, which distinguishes its requests from the kubelet's."""

_LONGEST_WAIT = 60.0
_LOOK_SECONDS = 0.02
_TIMES = Times(status=0.2, retry=0.1, settle=0.3)
"""The runtime takes as long as a real one; what is waited for by the clock alone is waited for shortly."""


def card_uuid(number: int) -> str:
    """A UUID for a card."""
    return f"GPU-{number:08x}-0000-4000-8000-{number:012x}"


def pod(name: str, card: int) -> dict[str, Any]:
    """A pod of one container with a slice of that card, as Volcano binds it."""
    ids = f"{card_uuid(card)},NVIDIA,1000,0:"
    annotations = {
        "volcano.sh/vgpu-ids-new": ids,
        "volcano.sh/devices-to-allocate": ids,
        "volcano.sh/vgpu-node": NODE,
        "volcano.sh/vgpu-time": "1795246593",
        "volcano.sh/bind-phase": "allocating",
        "volcano.sh/bind-time": "1795246593",
    }
    main = raw_objects.container(limits={NUMBER: "1", "volcano.sh/vgpu-memory": "1000"}, image="x")
    metadata = {"namespace": "default", "annotations": annotations}
    return raw_objects.pod(name, main, metadata=metadata, scheduler="volcano", node=NODE)


class Station:
    """A node without an agent; an agent started there finds everything under ``root``."""

    def __init__(self) -> None:
        self._server = ApiServer(kinds=VOLCANO, users={AGENT: AGENT})
        self._api: KubeClient | None = None
        self._kubelet: EmulatedKubelet | None = None
        self._cards = 0
        self._made = 0
        self._live: dict[str, str] = {}

    def start(self, *, root: str, cards: int) -> str:
        """Begin; the kubeconfig for the agent. ``root`` has ``cards.yaml`` and the ``image`` of the library then."""
        self._cards = cards
        described = [{"uuid": card_uuid(each), "memory": 40960, "numa": each // 4} for each in range(cards)]
        (Path(root) / "cards.yaml").write_text(yaml.safe_dump({"driver": "550.54.15", "cards": described}))
        (Path(root) / "image").mkdir()
        (Path(root) / "image" / "libvgpu.so").write_bytes(b"library")
        self._server.put(bare_node(NODE))
        self._api = connect_to(self._server.start(), component="bench")
        self._kubelet = EmulatedKubelet(self._api, NODE, Path(root), times=_TIMES, rate=None)
        self._kubelet.start()
        return str(self._server.kubeconfig(Path(root) / "kubeconfig", token=AGENT))

    def stop(self) -> None:
        """End everything."""
        if self._kubelet is not None:
            self._kubelet.stop()
        if self._api is not None:
            self._api.close()
        self._server.stop()

    def offers(self, *, slots: int) -> None:
        """Wait until the node has that many slots on offer."""

        def offered() -> bool:
            status = self._server.get("nodes", NODE).get("status") or {}
            return (status.get("allocatable") or {}).get(NUMBER) == str(slots)

        _wait(offered, f"{slots} slots on offer")

    def burst(self, *, pods: int) -> list[str]:
        """Bind so many pods together and wait until each has been served and Volcano has been notified; their names."""
        names = [f"pod-{self._made + at}" for at in range(pods)]
        for name in names:
            self._live[name] = self._put(pod(name, self._made % self._cards))
            self._made += 1
        _wait(lambda: all(map(self._served, names)), f"{names[0]} to {names[-1]} served")
        return names

    def end(self, *, names: Iterable[str]) -> None:
        """Delete pods and wait until nothing of them is left on the node."""
        for name in names:
            self._server.delete("pods", name, "default", grace=0)
            uid = self._live.pop(name)
            _wait(partial(self._is_gone, uid), f"{name} gone")

    def clear(self) -> None:
        """Count requests from zero."""
        self._server.requests.clear()

    def asked(self) -> dict[str, int]:
        """The agent's requests since ``clear``, and how many of them were writes."""
        counts = self._server.requests
        return {"requests": counts.total(user=AGENT), "writes": counts.writes(user=AGENT)}

    def _put(self, body: Mapping[str, Any]) -> str:
        if self._api is None:
            raise ValueError("the station has not been started")
        return str(self._api.create(paths.pods("default"), body)["metadata"]["uid"])

    def _is_gone(self, uid: str) -> bool:
        return not self._runs(uid)

    def _runs(self, uid: str) -> bool:
        return self._kubelet is not None and any(each.running for each in self._kubelet.containers(uid, "main"))

    def _served(self, name: str) -> bool:
        annotations = self._server.get("pods", name, "default")["metadata"]["annotations"]
        return annotations["volcano.sh/bind-phase"] == "success" and self._runs(self._live[name])


def _wait(condition: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + _LONGEST_WAIT
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"not within {_LONGEST_WAIT:.0f} s: {what}")
        time.sleep(_LOOK_SECONDS)


def main() -> None:
    """Answer until the bench ends."""
    logging.configure("error", "json")
    station = Station()
    answers: dict[str, Callable[..., Any]] = {
        "start": station.start,
        "offers": station.offers,
        "burst": station.burst,
        "end": station.end,
        "clear": station.clear,
        "asked": station.asked,
    }
    try:
        serve(answers)
    finally:
        station.stop()


if __name__ == "__main__":
    main()
