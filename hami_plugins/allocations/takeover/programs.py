"""Which programs change, place and bind new pods: webhooks, schedulers, the API server, and the allocator's rights."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from hami_plugins.allocations.manifests import allocator_configuration
from hami_plugins.allocations.manifests.webhooks import POD_PATH
from hami_plugins.allocations.mode import AllocatorMode
from hami_plugins.allocations.takeover.values import (
    TakeoverContext,
    TakeoverFinding,
    TakeoverObjects,
    TakeoverSeverity,
    TakeoverStage,
    error,
    info,
    listed,
    warning,
)
from hami_plugins.wire import lenient, pods
from hami_plugins.wire.fields import Json

HAMI_WEBHOOK: Final = "vgpu.hami.io"
"""The name of the webhook in HAMi's chart (``charts/hami/templates/scheduler/webhook.yaml``)."""

HAMI_EXTENDERS: Final = ("https://127.0.0.1:443", "http://127.0.0.1:80")
"""Where kube-scheduler asks HAMi's extender, which runs in the same pod."""

COMPONENT: Final = "app.kubernetes.io/component"
HAMI_SCHEDULER: Final = "hami-scheduler"
HAMI_PLUGIN: Final = "hami-device-plugin"
"""Values of that label on the pods of HAMi's chart."""

OLDEST: Final = (1, 30)
"""Kubernetes from which ``matchConditions`` of webhooks are stable."""

RIGHTS: Final = (
    ("list", "", "nodes"),
    ("watch", "", "nodes"),
    ("list", "", "pods"),
    ("watch", "", "pods"),
    ("create", "", "pods/binding"),
    ("patch", "", "nodes"),
    ("create", "", "events"),
    ("update", "coordination.k8s.io", "leases"),
    ("create", "coordination.k8s.io", "leases"),
)
"""The permissions that the allocator needs with HAMi's vendors under kube-scheduler: verb, group, resource."""


def stage_of(found: TakeoverObjects) -> TakeoverStage:
    """Who changes and binds new pods: HAMi's programs, ours, both, or neither."""
    webhooks, ours = _configurations(found)
    if webhooks or _hami_pods(found, HAMI_SCHEDULER):
        return TakeoverStage.DURING if ours else TakeoverStage.BEFORE
    return TakeoverStage.AFTER if ours else TakeoverStage.NEITHER


def of_programs(found: TakeoverObjects, context: TakeoverContext) -> Iterator[TakeoverFinding]:
    """Webhooks, schedulers, plugins, version, rights, custom resources."""
    yield from _of_webhooks(found)
    yield from _of_hami(found)
    yield from _of_schedulers(found, context)
    yield from _of_volcano(found, context)
    yield from _of_server(found, context)


def _of_webhooks(found: TakeoverObjects) -> Iterator[TakeoverFinding]:
    if found.webhooks is None:
        yield info("webhooks", "not known: the listing has no MutatingWebhookConfigurations", "check the live cluster")
        return
    hami, ours = _configurations(found)
    remedy = "apply what `hami-plugins allocator webhooks` prints"
    if not ours:
        what = "the allocator's are missing: new pods are not marked, and Bindings of HAMi's scheduler not checked"
        yield warning("webhooks", what, remedy)
    for name in ours[1:]:
        yield error(f"webhooks {name}", f"new pods are changed twice, also by {ours[0]}", "delete one of the two")
    if hami and ours:
        first, second = sorted((hami[0], ours[0]))
        what = f"both change new pods; the API server asks {first} before {second}, and the first sets schedulerName"
        last = "delete it once no pod waits for HAMi's scheduler"
        yield info(f"webhooks {hami[0]}", what, last)
    if hami and not _hami_pods(found, HAMI_SCHEDULER):
        what = "no pod of HAMi's scheduler runs, so that its webhook fails and pods pass unchanged"
        yield warning(f"webhooks {hami[0]}", what, "delete it, or start HAMi's scheduler")


def _of_hami(found: TakeoverObjects) -> Iterator[TakeoverFinding]:
    schedulers, plugins = _hami_pods(found, HAMI_SCHEDULER), _hami_pods(found, HAMI_PLUGIN)
    if schedulers:
        yield info("HAMi's scheduler", f"{len(schedulers)} pods run ({listed(schedulers)})", "scale it to 0 at the end")
    if plugins:
        yield info("HAMi's device plugin", f"runs on {len(plugins)} nodes", "keep it: it serves the allocator's pods")


def _of_schedulers(found: TakeoverObjects, context: TakeoverContext) -> Iterator[TakeoverFinding]:
    if found.configurations is None:
        return
    name = context.product.rules.webhook.scheduler
    profiles: dict[str, list[str]] = {}
    for place, configuration in found.configurations.items():
        for profile in lenient.mappings(configuration.get("profiles")):
            profiles.setdefault(lenient.text(profile.get("schedulerName")), []).append(place)
        asked = [_url(each) for each in lenient.mappings(configuration.get("extenders"))]
        hami = [url for url in asked if url in HAMI_EXTENDERS]
        ours = [url for url in asked if url.endswith(context.extender)]
        if hami and ours:
            what = f"one scheduler asks HAMi's extender ({hami[0]}) and the allocator ({ours[0]}) about its pods"
            yield error(place, what, "leave the allocator alone; `allocator conf --kube-scheduler --check` checks it")
    for served, places in profiles.items():
        if len(places) > 1 and served:
            what = f"{len(places)} kube-schedulers place its pods ({listed(places)}): a pod may be bound by either"
            yield error(f"profile {served}", what, "give one of them another schedulerName, or stop it")
    if profiles and name not in profiles:
        what = f"no configuration that was read has it, and the setting scheduler.name says {name}"
        yield warning(f"profile {name}", what, f"run a kube-scheduler with a profile {name}, or change scheduler.name")


def _of_volcano(found: TakeoverObjects, context: TakeoverContext) -> Iterator[TakeoverFinding]:
    """What is wrong with Volcano's configuration for the allocator's mode, in the words of ``conf --check``."""
    mode = AllocatorMode(context.product.marker[1])
    for place, conf in found.volcano.items():
        for each in allocator_configuration.check(conf, mode, context.product.registry, evicts=context.evicts):
            severity = TakeoverSeverity(each.severity)
            yield TakeoverFinding(severity, place, f"{each.place}: {each.what}", each.remedy)


def _of_server(found: TakeoverObjects, context: TakeoverContext) -> Iterator[TakeoverFinding]:
    version = re.match(r"v?(\d+)\.(\d+)", found.version)
    if version and (int(version[1]), int(version[2])) < OLDEST:
        what = f"Kubernetes {found.version}: webhooks with matchConditions need {OLDEST[0]}.{OLDEST[1]}"
        yield error("API server", what, "upgrade the control plane")
    if found.missing is not None and found.missing:
        what = f"may not {listed(found.missing, len(RIGHTS))}"
        yield error(f"account {found.account}", what, "install the chart, or bind a role with these rights")
    if found.pod_groups is False and _serves_volcano(context):
        what = "the cluster has no PodGroups of Volcano: gangs are placed pod by pod"
        yield info("API server", what, "install Volcano's CustomResourceDefinitions where its jobs run")


def _serves_volcano(context: TakeoverContext) -> bool:
    return any(spec.name not in {each.name for each in context.known} for spec in context.product.registry)


def _configurations(found: TakeoverObjects) -> tuple[list[str], list[str]]:
    """The names of the webhook configurations of HAMi and of the allocator, in the API server's order."""
    hami, ours = list[str](), list[str]()
    for raw in found.webhooks or ():
        name = lenient.text(lenient.inside(raw, "metadata").get("name"))
        hooks = lenient.mappings(raw.get("webhooks"))
        if any(lenient.text(hook.get("name")) == HAMI_WEBHOOK for hook in hooks):
            hami.append(name)
        elif any(_is_ours(hook) for hook in hooks):
            ours.append(name)
    return sorted(hami), sorted(ours)


def _is_ours(hook: Mapping[str, object]) -> bool:
    client = lenient.mapping(hook.get("clientConfig"))
    path = lenient.text(lenient.inside(client, "service").get("path")) or lenient.text(client.get("url"))
    name = lenient.text(hook.get("name"))
    return path.endswith(POD_PATH) and name.startswith("pods.") and "allocator" in name


def _hami_pods(found: TakeoverObjects, component: str) -> Sequence[str]:
    """The running pods of a component of HAMi's chart."""
    return [_name(raw) for raw in found.pods if _component(raw) == component and not pods.finished(raw)]


def _component(raw: Json) -> str:
    return lenient.text(lenient.inside(raw, "metadata", "labels").get(COMPONENT))


def _name(raw: Json) -> str:
    metadata = lenient.inside(raw, "metadata")
    return f"{metadata.get('namespace', '')}/{metadata.get('name', '')}"


def _url(extender: Mapping[str, object]) -> str:
    return lenient.text(extender.get("urlPrefix")).rstrip("/")
