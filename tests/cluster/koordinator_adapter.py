"""The adapter's server with the real Koordinator, and nodes whose cards HAMi's agent registers."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

import yaml

from hami_plugins.web.certificates import Material, renewed, write
from tests import raw_objects
from tests.cluster.allocator import Front, Replica, command
from tests.cluster.api import Object
from tests.cluster.card_nodes import NODES, Pool
from tests.cluster.koordinator import DEVICES, NAMESPACE, Koordinator
from tests.cluster.waiting import wait_until

OPT_IN: Final = {"hami-plugins.io/koordinator": "translate"}
ISOLATION: Final = {"koordinator.sh/gpu-isolation-provider": "HAMi-core"}
WHOLE: Final = 40_960
"""MiB of a card."""

_ADMISSION: Final = "/apis/admissionregistration.k8s.io/v1"
_NAME: Final = "koordinator-adapter"
_KINDS: Final = {
    "MutatingWebhookConfiguration": "mutatingwebhookconfigurations",
    "ValidatingWebhookConfiguration": "validatingwebhookconfigurations",
    "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
    "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
}

RULES: Final = (
    {"apiGroups": [""], "resources": ["nodes"], "verbs": ["list", "watch", "patch"]},
    {"apiGroups": [""], "resources": ["nodes/status"], "verbs": ["patch"]},
    {"apiGroups": [""], "resources": ["nodes/finalizers"], "verbs": ["update"]},
    {"apiGroups": [""], "resources": ["pods", "namespaces"], "verbs": ["list", "watch"]},
    {
        "apiGroups": ["scheduling.koordinator.sh"],
        "resources": ["devices"],
        "verbs": ["list", "watch", "create", "update"],
    },
    {
        "apiGroups": ["scheduling.sigs.k8s.io"],
        "resources": ["podgroups", "elasticquotas"],
        "verbs": ["list", "watch"],
    },
    {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "create", "update", "patch"]},
    {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "create", "update", "patch"]},
)
"""All that the server may do, and no more."""

NODE_RULES: Final = ({"apiGroups": [""], "resources": ["nodes"], "verbs": ["list", "watch", "patch"]},)
"""The same of the part on nodes, where the server sets limits."""


class Adapter:
    """The server, its webhooks and the policy on allocations installed. At the end of the ``with`` all are gone.

    Without ``bootstrap`` the test makes the certificate (``certify``), and the API server reaches the server by a
    ``front`` whose connections can be ended.
    """

    def __init__(self, koordinator: Koordinator, *, bootstrap: bool = True, **settings: Any) -> None:
        self.koordinator = koordinator
        self.plane = koordinator.plane
        self._folder = folder = self.plane.machine.root / f"adapter-{secrets.token_hex(3)}"
        folder.mkdir()
        files = {"file": "tls.pem", "key": "tls.pem"}
        told = {
            "service": {"namespace": NAMESPACE},
            "certificate": {
                "directory": str(folder),
                **({"bootstrap": True, "names": ["127.0.0.1"]} if bootstrap else files),
            },
            "lease": {"duration": 4, "deadline": 3, "retry": 0.5},
        }
        self._material: Material | None = None
        self._settings = folder / "settings.yaml"
        self._settings.write_text(yaml.safe_dump(settings))
        self.server = Replica(
            self.plane, folder.name, told | settings, product="koordinator", word="serve", rules=RULES
        )
        # It asks for the replicas as soon as it is made.
        self.front = None if bootstrap else Front(lambda: [("127.0.0.1", self.server.hook_port)])

    def __enter__(self) -> Adapter:
        if self.front is not None:
            self.certify()
        port = self.server.hook_port if self.front is None else self.front.port
        trusted = () if self.front is None else ("--ca-file", str(self._folder / "ca.crt"))
        given = ("--url", f"https://127.0.0.1:{port}", "--config", str(self._settings), *trusted)
        printed = command("webhooks", *given, product="koordinator")
        policy = command("koordinator", "--name", _NAME, product="allocation-policy")
        for body in (*yaml.safe_load_all(printed), *yaml.safe_load_all(policy)):
            self.plane.apply(f"{_ADMISSION}/{_KINDS[body['kind']]}", body)
        # Pods that share cards are given it, and the API server takes no pod with one that it does not know.
        self.plane.apply("/apis/node.k8s.io/v1/runtimeclasses", {"metadata": {"name": "nvidia"}, "handler": "nvidia"})
        self.server.component.start()
        wait_until(lambda: self.server.ready, "the server is ready", 60, show=self._story)
        if self.front is None:
            self.server.establish_trust()
        wait_until(self._trusted, "the API server trusts the webhooks", 60, show=self._story)
        return self

    def __exit__(self, *_: object) -> None:
        for kind in _KINDS.values():
            self.plane.api.delete(f"{_ADMISSION}/{kind}/{_NAME}")
        self.server.component.stop()
        if self.front is not None:
            self.front.close()

    def certify(self) -> bytes:
        """Gives the server a new certificate of the same authority; its chain, PEM."""
        held = self._material and replace(self._material, chain=b"", key=b"")
        self._material = renewed(held, ["127.0.0.1"], datetime.now(UTC))
        write(self._material, self._folder)
        return self._material.chain

    def shows(self, chain: bytes) -> bool:
        """Whether a new connection gets this certificate."""
        return self.server.certificate() == chain

    def writes(self, what: str) -> float:
        """How often it has written something."""
        return self.server.metric("koordinator_adapter_writes_total", what=what)

    def device(self, node: str) -> Object:
        """A node's Device object."""
        return self.plane.api.get(f"{DEVICES}/{node}")

    def _trusted(self) -> bool:
        """Whether a pod that is to be translated comes back translated; nothing is made."""
        return "koordinator.sh/gpu.shared" in json.dumps(self.asked("default", a_pod("probe", {"nvidia.com/gpu": 1})))

    def asked(self, namespace: str, pod: Object) -> Object:
        """A pod as the API server would store it; nothing is made."""
        path = f"/api/v1/namespaces/{namespace}/pods"
        found: Object = json.loads(self.plane.api.request("POST", path, pod, query={"dryRun": "All"}))
        return found

    def _story(self) -> str:
        return self.server.complaint("/readyz") + self.server.component.log()[-3000:]


class CardNodes:
    """Nodes with cards, each two of ``WHOLE``, that promise limits. At the end of the ``with`` they are gone."""

    def __init__(self, koordinator: Koordinator) -> None:
        self._koordinator = koordinator
        self._pool = Pool(koordinator.plane)
        self.names: list[str] = []

    def __enter__(self) -> CardNodes:
        self._pool.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.__exit__()

    @property
    def selector(self) -> Mapping[str, str]:
        """What brings a pod to these nodes."""
        return self._pool.selector

    def add(self, *cards: Object) -> str:
        """One more node; its name."""
        name = f"{self._pool.name}-{len(self.names)}"
        listed = cards or (a_card(name, 0), a_card(name, 1))
        self._pool.put(name, [], annotations=register(*listed))
        self._koordinator.plane.api.merge_patch(f"{NODES}/{name}", {"metadata": {"labels": ISOLATION}})
        self.names.append(name)
        return name

    def tell(self, name: str, *cards: Object) -> None:
        """What the node's agent says of its cards from now on."""
        self._koordinator.plane.api.merge_patch(f"{NODES}/{name}", {"metadata": {"annotations": register(*cards)}})

    def wait_summed(self, name: str, percent: int) -> None:
        """Wait until the node offers so many percent of cards."""
        path = f"{NODES}/{name}"

        def offered() -> bool:
            status = self._koordinator.plane.api.get(path)["status"]
            return bool(status["allocatable"].get("koordinator.sh/gpu.shared", "0") == str(percent))

        wait_until(offered, f"{name} offers {percent} % of cards", 60, show=self._koordinator.manager.log)


def a_card(node: str, at: int, **changes: Any) -> Object:
    """A card as HAMi's agent registers it."""
    usual = {"id": f"GPU-{node}-{at}", "index": at, "count": 10, "devmem": WHOLE, "devcore": 100}
    return {**usual, "type": "NVIDIA-NVIDIA A100", "numa": 0, "mode": "hami-core", "health": True, **changes}


def register(*cards: Object) -> Mapping[str, str]:
    """The annotation of HAMi's agent."""
    return {"hami.io/node-nvidia-register": json.dumps(cards)}


def a_pod(name: str, limits: Mapping[str, object], *, translated: bool = True, **more: Any) -> Object:
    """A pod that asks for cards, to be translated if anything."""
    labels = {**(OPT_IN if translated else {}), **more.pop("labels", {})}
    asks = raw_objects.container(limits={key: str(value) for key, value in limits.items()}, image="i")
    metadata = {"labels": labels, "annotations": more.pop("annotations", {})}
    # No kubelet ends it, so that it goes at once when it is deleted.
    usual = {"restartPolicy": "Never", "automountServiceAccountToken": False, "terminationGracePeriodSeconds": 0}
    return raw_objects.pod(name, asks, metadata=metadata, **{**usual, **more})
