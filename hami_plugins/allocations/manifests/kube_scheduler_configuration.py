"""The extender in kube-scheduler's configuration: what belongs into it, and what is wrong with one.

The scheduler's behaviour is taken from Kubernetes 1.34 ``pkg/scheduler/extender.go``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

from hami_plugins.allocations.manifests.volcano_configuration import (
    LEAST_TIMEOUT,
    ConfigurationFinding,
    error,
    names_of,
    seconds,
    warning,
)
from hami_plugins.model.vendor_names import ResourceNames

TIMEOUT: Final = "5s"
LOCKED_TIMEOUT: Final = "30s"
"""Where pods wait for device plugins before they are bound: longer than the server lets them wait."""

KIND: Final = "KubeSchedulerConfiguration"
VERBS: Final[Mapping[str, str]] = {
    "filterVerb": "filter",
    "prioritizeVerb": "prioritize",
    "preemptVerb": "preempt",
    "bindVerb": "bind",
}
"""The calls that are answered, by the member that turns each on."""


def document(  # noqa: PLR0913 - what a configuration depends on
    url: str,
    resources: Sequence[ResourceNames],
    *,
    ignored: Collection[str] = (),
    binds: bool = True,
    evicts: bool = False,
    timeout: str = TIMEOUT,
) -> dict[str, Any]:
    """A configuration with the extender; ``url`` is where the scheduler reaches it, ``timeout`` is for its calls.

    Where the extender ``binds``, no pod is bound without devices, also while the server is away. Where it ``evicts``,
    the scheduler asks it which pods make room. ``ignored`` are the
    resources that the scheduler must not look for on nodes: HAMi's plugins offer a number of cards and nothing else.
    """
    extender = {
        "urlPrefix": url,
        **_verbs(binds=binds, evicts=evicts),
        "weight": 1,
        "nodeCacheCapable": True,
        "ignorable": False,
        "httpTimeout": timeout,
        "managedResources": [{"name": name, "ignoredByScheduler": name in ignored} for name in names_of(resources)],
    }
    return {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": KIND, "extenders": [extender]}


def check(  # noqa: PLR0913 - what ``document`` is given, and what is checked
    conf: Mapping[str, Any],
    url: str,
    resources: Sequence[ResourceNames],
    *,
    ignored: Collection[str] = (),
    binds: bool = True,
    evicts: bool = False,
    timeout: str = TIMEOUT,
) -> tuple[ConfigurationFinding, ...]:
    """What is wrong with a configuration; ``url`` is where the scheduler has to reach the server."""
    extenders = conf.get("extenders")
    listed = [each for each in extenders if isinstance(each, dict)] if isinstance(extenders, list) else []
    path = url.rpartition("/")[2]
    ours = [(at, each) for at, each in enumerate(listed) if str(each.get("urlPrefix", "")).rstrip("/").endswith(path)]
    if not ours:
        what = f"no extender with an address that ends in /{path}: pods are placed without a check of their devices"
        return (error("extenders", what, f"add the extender with urlPrefix: {url}"),)
    at, extender = ours[0]
    place = f"extenders[{at}]"
    return (
        *_second(ours),
        *_calls(extender, place, _verbs(binds=binds, evicts=evicts)),
        *_answers(extender, place, timeout),
        *_managed(extender, place, names_of(resources), ignored),
    )


def _verbs(*, binds: bool, evicts: bool) -> dict[str, str]:
    omitted = {"bind": not binds, "preempt": not evicts}
    return {member: verb for member, verb in VERBS.items() if not omitted.get(verb)}


def _second(ours: Sequence[tuple[int, Mapping[str, Any]]]) -> Iterator[ConfigurationFinding]:
    for at, _ in ours[1:]:
        yield error(f"extenders[{at}]", "the server is asked twice about each pod", "leave one")


def _calls(extender: Mapping[str, Any], place: str, wanted: Mapping[str, str]) -> Iterator[ConfigurationFinding]:
    for member, verb in VERBS.items():
        given = extender.get(member) or ""
        if given == wanted.get(member, ""):
            continue
        where = f"{place} {member}"
        if verb == "preempt":
            yield from _preempts(given, where, wanted=member in wanted)
        elif member not in wanted:
            yield error(where, "the server is set not to bind", "remove it, or set scheduler.binds: true")
        elif verb == "prioritize" and not given:
            yield warning(where, "is missing: nodes are not ranked by their devices", f"write {member}: {verb}")
        elif verb == "bind" and not given:
            what = "is missing: the scheduler binds pods itself, and only a webhook can give them their devices"
            yield error(where, what, f"write {member}: {verb}, or set scheduler.binds: false")
        else:
            what = f"{given!r} is not answered" if given else "is missing: nodes are not checked"
            yield error(where, what, f"write {member}: {verb}")


def _preempts(given: str, where: str, *, wanted: bool) -> Iterator[ConfigurationFinding]:
    if wanted:
        what = f"{given!r} is not answered" if given else "is missing: the scheduler chooses pods to evict by node sums"
        yield (error if given else warning)(where, what, "write preemptVerb: preempt")
    elif given != "preempt":
        yield error(where, f"{given!r} is not answered", "remove it, or set preemption.mode and write preempt")


def _answers(extender: Mapping[str, Any], place: str, wanted: str) -> Iterator[ConfigurationFinding]:
    if extender.get("ignorable") is True:
        what = "while the server is away pods are placed without a check of their devices"
        yield error(f"{place} ignorable", what, "write ignorable: false")
    if extender.get("nodeCacheCapable") is not True:
        what = "is not true: each call carries whole nodes, megabytes in a large cluster"
        yield warning(f"{place} nodeCacheCapable", what, "write nodeCacheCapable: true")
    timeout = extender.get("httpTimeout")
    given = seconds(timeout) if isinstance(timeout, str) else None
    least = LEAST_TIMEOUT if wanted == TIMEOUT else seconds(wanted) or 0.0
    if given is None or given < least:
        what = f"{timeout!r} is short" if given is not None else "is missing or no duration"
        why = "a call waits while replicas change" if wanted == TIMEOUT else "a pod waits for its node's device plugin"
        yield warning(f"{place} httpTimeout", f"{what}: {why}", f"write {wanted}")


def _managed(
    extender: Mapping[str, Any], place: str, names: Sequence[str], ignored: Collection[str]
) -> Iterator[ConfigurationFinding]:
    where = f"{place} managedResources"
    managed = extender.get("managedResources")
    listed = [each for each in managed if isinstance(each, dict)] if isinstance(managed, list) else []
    if not listed:
        yield warning(where, "is missing: every pod is sent to the server", f"list {', '.join(names)}")
        return
    if missing := [name for name in names if name not in [each.get("name") for each in listed]]:
        what = f"lacks {', '.join(missing)}: pods that ask for that alone are not checked"
        told = "true" if set(missing) & set(ignored) else "false"
        yield error(where, what, f"add it with ignoredByScheduler: {told}")
    if counted := [
        each["name"] for each in listed if each.get("name") in ignored and each.get("ignoredByScheduler") is not True
    ]:
        what = f"has the scheduler look for {', '.join(counted)} on nodes, which need not offer it: pods stay Pending"
        yield error(where, what, "write ignoredByScheduler: true")
