"""Clusters that HAMi serves, as an API server lists them, and what the check finds in them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from hami_plugins.allocations.product import Product
from hami_plugins.allocations.takeover.check import findings
from hami_plugins.allocations.takeover.values import TakeoverContext, TakeoverFinding, TakeoverObjects
from hami_plugins.engine.intake import Rules
from hami_plugins.engine.registry import Registry
from hami_plugins.vendors import hygon, nvidia
from tests.unit.allocations import test_assigned as hami

NOW = datetime(2026, 11, 24, 12, 0, 0, tzinfo=UTC)
MARK = hami.MARK
SECONDS = int(NOW.timestamp())


def found(*, vendors: Sequence[Any] = (nvidia.SPEC,), **objects: Any) -> tuple[TakeoverFinding, ...]:
    """The findings in these objects, of an allocator that serves these vendors."""
    product = Product(registry=Registry(vendors), rules=Rules(), marker=(MARK, "extender"))
    known = Registry([nvidia.SPEC, hygon.SPEC])
    context = TakeoverContext(product=product, known=known, extender="/scheduler", now=NOW)
    return findings(TakeoverObjects(**{"webhooks": [ours()], **objects}), context)


def told(**objects: Any) -> list[tuple[str, str]]:
    """Severity and object of each finding."""
    return [(each.severity.value, each.object) for each in found(**objects)]


def only(**objects: Any) -> TakeoverFinding:
    """The one finding."""
    (each,) = found(**objects)
    return each


def a_node(name: str = "n1", *, offers: str = "10", without: str = "", **annotations: str) -> dict[str, Any]:
    """A node whose plugin has registered one card, and which the kubelet offers."""
    raw = hami.a_node(name)
    raw["metadata"]["annotations"] |= {"hami.io/node-handshake": "Requesting_2026-11-24 11:59:59", **annotations}
    raw["metadata"]["annotations"].pop(without, None)
    raw["status"] = {"allocatable": {"nvidia.com/gpu": offers}, "capacity": {"nvidia.com/gpu": offers}}
    return raw


def a_pod(name: str = "p", **annotations: str) -> dict[str, Any]:
    """A pod that waits for HAMi's scheduler."""
    return hami.a_pod(name, annotations=annotations)


def assigned(name: str = "p", *, seconds: int) -> dict[str, Any]:
    """The same, with devices that HAMi assigned so long ago."""
    return hami.assigned(a_pod(name), time=SECONDS - seconds)


def bound(name: str = "p", *, phase: str = "Running", **annotations: str) -> dict[str, Any]:
    """A pod that HAMi has bound."""
    raw = hami.assigned(a_pod(name))
    raw["spec"]["nodeName"], raw["status"] = "n1", {"phase": phase}
    raw["metadata"]["annotations"] |= annotations
    return raw


def component(name: str, of: str = "hami-scheduler") -> dict[str, Any]:
    """A pod of HAMi's chart."""
    metadata = {"name": name, "namespace": "hami", "uid": name, "labels": {"app.kubernetes.io/component": of}}
    return {"metadata": metadata, "spec": {"nodeName": "m", "containers": []}, "status": {"phase": "Running"}}


def ours(name: str = "hami-plugins-allocator") -> dict[str, Any]:
    """The allocator's webhooks."""
    client = {"service": {"name": "s", "namespace": "n", "path": "/webhooks/pods"}}
    hook = {"name": "pods.allocator.hami-plugins.io", "clientConfig": client}
    return {"kind": "MutatingWebhookConfiguration", "metadata": {"name": name}, "webhooks": [hook]}


def hamis(name: str = "hami-webhook") -> dict[str, Any]:
    """HAMi's webhook."""
    hook = {"name": "vgpu.hami.io", "clientConfig": {"service": {"path": "/webhook"}}}
    return {"kind": "MutatingWebhookConfiguration", "metadata": {"name": name}, "webhooks": [hook]}


def configuration(*profiles: str, extenders: Sequence[str] = ()) -> dict[str, Any]:
    """A kube-scheduler's configuration."""
    return {
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": name} for name in profiles],
        "extenders": [{"urlPrefix": url} for url in extenders],
    }
