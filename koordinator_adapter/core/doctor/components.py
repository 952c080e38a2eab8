"""Checks of Koordinator's own programs and their settings: gates, the manager, koordlet, the scheduler, the library."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Final

import orjson

from hami_plugins.allocations.manifests.account_policies import UNLISTED
from hami_plugins.allocations.manifests.allocation_policy import account
from hami_plugins.engine.koordinator import SCHEDULER
from hami_plugins.wire import documents
from hami_plugins.wire.koordinator import ALLOCATED_KEY, SHARED
from koordinator_adapter.core.devices import koordlet
from koordinator_adapter.core.doctor.evidence import (
    ClusterProgram,
    DoctorFinding,
    DoctorSeverity,
    Evidence,
    ProgramContainer,
    several,
)
from koordinator_adapter.core.translation.vocabulary import HAMI_CORE, ISOLATION

MANAGER: Final = "koord-manager"
KOORDLET: Final = "koordlet"
KOORDINATORS_HOOK: Final = "koordinator-mutating-webhook-configuration"
LIBRARY: Final = "libvgpu.so"
OWN_PROGRAM: Final = "koordinator-adapter"

_SYSTEM: Final = "koordinator-system"
_SETTINGS: Final = "slo-controller-config"
_COLOCATION: Final = "colocation-config"
_PLUGIN: Final = "DeviceShare"
_POINTS: Final = ("preFilter", "filter", "reserve", "preBind")
_VERSIONS: Final = (
    re.compile(r"libvgpu\.so\.v?(\d+)\.(\d+)\.(\d+)"),
    re.compile(r"hami[^\s/]*:v?(\d+)\.(\d+)\.(\d+)"),
)
_NEW_DRIVER: Final = (570, 0)
"""Drivers after this one need HAMi-core 2.6.0 or later (Koordinator chart ``hami-daemon`` 0.2.0)."""

_FOR_NEW_DRIVERS: Final = (2, 6, 0)
_COPIES_OVER: Final = re.compile(r"\bcp\s+(?:-[a-zA-Z]+\s+)*(\S*libvgpu\S*)\s+(\S+)")


def colocation(evidence: Evidence) -> Iterator[DoctorFinding]:
    """Without colocation the manager writes no card resources into nodes."""
    manager = evidence.program(MANAGER)
    if "ConfigMap" not in evidence.kinds or (manager is None and not evidence.devices):
        return
    namespace = (manager.flag("config-namespace") if manager else None) or _SYSTEM
    name = (manager.flag("slo-config-name") if manager else None) or _SETTINGS
    data = evidence.settings.get(f"{namespace}/{name}")
    if data is None:
        yield DoctorFinding(
            check="colocation",
            severity=DoctorSeverity.ERROR,
            about=f"configmap/{namespace}/{name}",
            words="is missing, so koord-manager writes no card resources into nodes",
            fix=f"kubectl -n {namespace} create configmap {name} --from-literal={_COLOCATION}='{{\"enable\":true}}'",
        )
        return
    text = data.get(_COLOCATION, "")
    parsed = _json(text)
    if parsed is not None and parsed.get("enable") is True:
        return
    wanted = documents.dump({**(parsed or {}), "enable": True})
    patch = documents.dump({"data": {_COLOCATION: wanted}})
    why = "is not JSON" if text and parsed is None else "does not enable colocation"
    yield DoctorFinding(
        check="colocation",
        severity=DoctorSeverity.ERROR,
        about=f"configmap/{namespace}/{name}",
        words=f"{_COLOCATION} {why}, so koord-manager writes no card resources into nodes",
        fix=f"kubectl -n {namespace} patch configmap {name} --type=merge -p {shlex.quote(patch)}",
    )


def shared_slots(evidence: Evidence) -> Iterator[DoctorFinding]:
    """The manager's webhook adds ``gpu.shared`` to every pod with cards; some node has to advertise it."""
    manager = evidence.program(MANAGER)
    webhook = any(each.configuration == KOORDINATORS_HOOK for each in evidence.hooks)
    gates = manager.gates() if manager else {}
    adds = (manager is not None or webhook) and gates.get("WebhookFramework", True)
    if not adds or gates.get("DisableDeviceResourceSpec", False) or gates.get("EnableSyncGPUSharedResource", False):
        return
    lacking = [machine.name for machine, _ in evidence.card_nodes() if not machine.offers(SHARED)]
    if not lacking:
        return
    yield DoctorFinding(
        check="shared-slots",
        severity=DoctorSeverity.ERROR,
        about=manager.full_name if manager else f"mutatingwebhookconfiguration/{KOORDINATORS_HOOK}",
        words=f"adds {SHARED} to every pod with cards, which {several(lacking)} do not advertise: they wait for ever",
        fix=manager.with_gate("EnableSyncGPUSharedResource") if manager else _add_gate("EnableSyncGPUSharedResource"),
    )


def node_agent(evidence: Evidence) -> Iterator[DoctorFinding]:
    """koordlet reports cards and puts limits into containers only if it is configured to."""
    agent = evidence.program(KOORDLET)
    if agent is None or not (evidence.devices or _promised(evidence)):
        return
    gates = agent.gates()
    if not koordlet.is_on(gates, koordlet.ACCELERATORS) and not evidence.devices:
        yield DoctorFinding(
            check="koordlet",
            severity=DoctorSeverity.ERROR,
            about=agent.full_name,
            words="reports no cards: feature gate Accelerators is off and no other component publishes Device objects",
            fix=agent.with_gate(koordlet.ACCELERATORS),
        )
    if not _promised(evidence) or evidence.program(OWN_PROGRAM) is not None:
        return
    if not koordlet.is_on(gates, koordlet.INJECTION):
        yield DoctorFinding(
            check="koordlet",
            severity=DoctorSeverity.ERROR,
            about=agent.full_name,
            words=f"puts no limits into containers (feature gate GPUEnvInject is off), but {ISOLATION} promises them",
            fix=agent.with_gate(koordlet.INJECTION),
        )
    if (agent.flag("enable-nri-runtime-hook") or "").lower() == "false":
        yield DoctorFinding(
            check="nri",
            severity=DoctorSeverity.ERROR,
            about=agent.full_name,
            words="does not use NRI, the only way that brings both the library and its limits into containers",
            fix=_without_flag(agent, "enable-nri-runtime-hook"),
        )


def runtimes(evidence: Evidence) -> Iterator[DoctorFinding]:
    """NRI, by which koordlet reaches containers, needs containerd 1.7, and there has to be switched on."""
    if evidence.program(KOORDLET) is None or not _promised(evidence):
        return
    asleep = []
    for machine, _ in evidence.card_nodes():
        name, _, version = machine.runtime.partition("://")
        parts = _numbers(version)
        if name == "containerd" and parts >= (2,):
            continue
        if name == "containerd" and parts >= (1, 7):
            asleep.append(machine.name)
        elif machine.runtime and name != "cri-o":
            yield DoctorFinding(
                check="nri",
                severity=DoctorSeverity.ERROR,
                about=f"node/{machine.name}",
                words=f"runs {machine.runtime}, which has no NRI: containers get no limits",
                fix=f"kubectl drain {machine.name} --ignore-daemonsets   # and upgrade containerd to 1.7 or later",
            )
    if asleep:
        yield DoctorFinding(
            check="nri",
            severity=DoctorSeverity.NOTE,
            about="nodes",
            words=f"containerd 1.7 has NRI switched off unless its configuration says otherwise: {several(asleep)}",
            fix="containerd config dump | grep -A 3 io.containerd.nri   # on the node; must be disable = false",
        )


def library(evidence: Evidence) -> Iterator[DoctorFinding]:
    """HAMi-core's library on every node, in a version that its driver works with, never copied over one in use."""
    if "DaemonSet" not in evidence.kinds or not _promised(evidence):
        return
    bringing = [
        (program, part)
        for program in evidence.programs
        for part in program.parts
        if LIBRARY in " ".join(part.words) and program.kind == "DaemonSet"
    ]
    if not bringing and evidence.program(OWN_PROGRAM) is None:
        yield DoctorFinding(
            check="library",
            severity=DoctorSeverity.ERROR,
            about="daemonset",
            words=f"no component copies {LIBRARY} to the nodes whose label {ISOLATION} promises limits",
            fix="helm install hami-daemon koordinator-sh/hami-daemon -n koordinator-system",
        )
    for program, part in bringing:
        yield from _outdated(evidence, program, part)
        yield from _copied_over(program, part)


def profiles(evidence: Evidence) -> Iterator[DoctorFinding]:
    """A profile that looks at cards without reserving and recording them binds pods without a record."""
    for place, profile in evidence.schedulers:
        plugins = profile.get("plugins")
        plugins = plugins if isinstance(plugins, dict) else {}
        here = [point for point in _POINTS if _enables(plugins.get(point))]
        missing = [point for point in _POINTS if point not in here]
        name = profile.get("schedulerName", "default-scheduler")
        if _enables(plugins.get("multiPoint")) or not missing or not here:
            continue
        namespace, _, config = place.partition("/")
        yield DoctorFinding(
            check="scheduler-profile",
            severity=DoctorSeverity.ERROR,
            about=f"configmap/{place}",
            words=f"profile {name} has {_PLUGIN} at {', '.join(here)} and not at {', '.join(missing)}: pods are bound "
            "without a record of their cards",
            fix=f"kubectl -n {namespace} edit configmap {config}   # enable {_PLUGIN} at {', '.join(missing)}",
        )


def hooks(evidence: Evidence) -> Iterator[DoctorFinding]:
    """HAMi's webhook takes pods that name no scheduler, and webhooks are called in the order of their names."""
    names = sorted({each.configuration for each in evidence.hooks})
    hamis = [each for each in names if "hami" in each and OWN_PROGRAM not in each]
    ours = [each for each in names if OWN_PROGRAM in each]
    if not hamis or not evidence.devices:
        return
    first = min(hamis)
    before = not ours or first < ours[0]
    whose = "before pods are translated" if ours and before else "that ask for nvidia.com/gpu"
    yield DoctorFinding(
        check="webhook-order",
        severity=DoctorSeverity.WARNING if before else DoctorSeverity.NOTE,
        about=f"mutatingwebhookconfiguration/{first}",
        words=f"HAMi's webhook takes pods that name no scheduler {whose}, and HAMi's scheduler then places them",
        fix="kubectl label namespace NAMESPACE hami.io/webhook=ignore   # each namespace that Koordinator schedules",
    )


def writers(evidence: Evidence) -> Iterator[DoctorFinding]:
    """Koordinator's scheduler may write what it records: an admission policy that neither lists it nor trusts its name
    in every namespace stops every pod with cards. Its right to bind pods is not looked up: without it nothing works."""
    scheduler = evidence.program(SCHEDULER)
    if scheduler is None:
        return
    user = account(scheduler.namespace, scheduler.account)
    for name, conditions in sorted(evidence.policies.items()):
        known = (user, f"system:serviceaccounts:{scheduler.namespace}", f'":{scheduler.account}"')
        trusted = any(each in conditions for each in known)
        if ALLOCATED_KEY in conditions and UNLISTED in conditions and not trusted:
            words = f"does not list {user}, so that {scheduler.full_name} binds no pod with cards"
            yield DoctorFinding(
                check="record-writers",
                severity=DoctorSeverity.ERROR,
                about=f"validatingadmissionpolicy/{name}",
                words=words,
                fix=f"helm upgrade --reuse-values RELEASE CHART --set 'allocationPolicy.users={{{user}}}'",
            )


CHECKS: Final = (colocation, shared_slots, node_agent, runtimes, library, profiles, hooks, writers)


def _promised(evidence: Evidence) -> bool:
    """Whether any node says that limits are enforced there."""
    return any(machine.labels.get(ISOLATION) == HAMI_CORE for machine in evidence.machines.values())


def _outdated(evidence: Evidence, program: ClusterProgram, part: ProgramContainer) -> Iterator[DoctorFinding]:
    text = " ".join((*part.words, part.image))
    found = next((match for pattern in _VERSIONS if (match := pattern.search(text))), None)
    if found is None:
        return
    version = tuple(map(int, found.groups()))
    spelled = ".".join(found.groups())
    fix = f"kubectl -n {program.namespace} edit daemonset {program.name}   # image and library 2.6.1"
    new = [
        machine.name
        for machine, published in evidence.card_nodes()
        if _numbers(published.labels.get("node.koordinator.sh/gpu-driver-version", "")) > _NEW_DRIVER
    ]
    if version < _FOR_NEW_DRIVERS and new:
        yield DoctorFinding(
            check="library",
            severity=DoctorSeverity.ERROR,
            about=program.full_name,
            words=f"brings HAMi-core {spelled}, which does not work with drivers after 570: {several(new)}",
            fix=fix,
        )
    if version == _FOR_NEW_DRIVERS:
        yield DoctorFinding(
            check="library",
            severity=DoctorSeverity.WARNING,
            about=program.full_name,
            words="brings HAMi-core 2.6.0, which stops vLLM from starting; 2.6.1 does not",
            fix=fix,
        )


def _copied_over(program: ClusterProgram, part: ProgramContainer) -> Iterator[DoctorFinding]:
    for at, word in enumerate(part.args):
        found = _COPIES_OVER.search(word)
        if found is None:
            continue
        target = found[2].rstrip(";&")
        if not target.endswith(LIBRARY):
            continue
        safe = f"cp {found[1]} {target}.new && mv -f {target}.new {target}"
        ending = found[2][len(target) :]
        yield DoctorFinding(
            check="library",
            severity=DoctorSeverity.WARNING,
            about=program.full_name,
            words=f"copies {LIBRARY} over the one that running containers have open, which can end them",
            fix=program.patch("replace", part, f"args/{at}", word.replace(found[0], safe + ending)),
        )


def _without_flag(program: ClusterProgram, name: str) -> str:
    for part in program.parts:
        for at, word in enumerate(part.args):
            if word.lstrip("-").partition("=")[0] == name:
                return program.patch("replace", part, f"args/{at}", f"--{name}=true")
    return f"kubectl -n {program.namespace} edit {program.kind.lower()} {program.name}   # --{name}=true"


def _add_gate(gate: str) -> str:
    return f"kubectl -n {_SYSTEM} edit deployment {MANAGER}   # --feature-gates={gate}=true"


def _enables(point: object) -> bool:
    enabled = point.get("enabled") if isinstance(point, dict) else None
    return isinstance(enabled, list) and any(isinstance(each, dict) and each.get("name") == _PLUGIN for each in enabled)


def _json(text: str) -> Mapping[str, object] | None:
    try:
        found = orjson.loads(text)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _numbers(version: str) -> tuple[int, ...]:
    """The leading numbers of a version; empty where there are none."""
    found = re.match(r"v?(\d+(?:\.\d+)*)", version)
    return tuple(map(int, found[1].split("."))) if found else ()
