"""Who places the pod, on which nodes, and whether its limits are enforced there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final

from hami_plugins.engine.demand import WHOLE
from hami_plugins.engine.mutate import DEFAULT_SCHEDULER
from hami_plugins.engine.policies import DEVICE_POLICY_KEY, NODE_POLICY_KEY
from hami_plugins.model.dialect import Dialect
from hami_plugins.model.edits import DropEdit, PutEdit
from hami_plugins.wire import scoring_weights
from koordinator_adapter.core.translation.koordinator_reader import NVIDIA
from koordinator_adapter.core.translation.model import (
    Change,
    TranslationContext,
    TranslationFinding,
    at,
    kept,
    lost,
    refused,
)
from koordinator_adapter.core.translation.vocabulary import (
    HAMI_CORE,
    ISOLATION,
    SCHEDULER_LABEL,
    VENDOR_LABEL,
    VENDORS,
)

_SCHEDULER: Final = ("spec", "schedulerName")
_LABEL: Final = ("metadata", "labels", ISOLATION)
_NODE_SELECTOR: Final = ("spec", "nodeSelector")
_SELECTOR: Final = (*_NODE_SELECTOR, ISOLATION)
_POLICIES: Final = (NODE_POLICY_KEY, DEVICE_POLICY_KEY)


def namespace(case: TranslationContext) -> Iterator[Change]:
    """Koordinator's webhook leaves some namespaces out; pods there are neither completed nor checked."""
    if case.target is Dialect.KOORDINATOR and case.pod.namespace in case.settings.unserved:
        yield refused(
            "namespace",
            f"{case.pod.namespace} has the label control-plane, so Koordinator's webhook leaves its pods out",
            "put the pod into another namespace, or take the label away",
        )


def node(case: TranslationContext) -> Iterator[Change]:
    """A pod that names its node bypasses every scheduler: its cards are not recorded, so they are allocated again."""
    if case.pod.node is not None and case.source is not case.target:
        yield refused(
            "nodeName",
            f"the pod names its node {case.pod.node}, so {case.target}'s scheduler neither places nor counts it",
            "leave nodeName out; a nodeSelector of kubernetes.io/hostname keeps a pod on a node",
            path=("spec", "nodeName"),
        )


def scheduler(case: TranslationContext) -> Iterator[Change]:
    """The scheduler of the target; a pod of a third scheduler stays with it."""
    settings, named = case.settings, case.pod.labels.get(SCHEDULER_LABEL) or case.pod.scheduler
    own = {settings.schedulers[case.source], "", DEFAULT_SCHEDULER}
    if case.source is Dialect.KOORDINATOR:
        own |= set(settings.profiles.values())
    if named not in own:
        yield not_its_own(named, case.source)
        return
    wanted = settings.schedulers[case.target]
    if case.target is Dialect.KOORDINATOR:
        word = _policy_word(case)
        wanted = named if case.source is case.target and named in own - {"", DEFAULT_SCHEDULER} else wanted
        wanted = settings.profiles.get(word, wanted)
    elif SCHEDULER_LABEL in case.pod.labels:
        yield DropEdit(("metadata", "labels", SCHEDULER_LABEL))
    if at(case.raw, _SCHEDULER) != wanted:
        yield PutEdit(_SCHEDULER, wanted)


def not_its_own(scheduler: str, words: Dialect) -> TranslationFinding:
    """The refusal of a pod whose scheduler does not read its words."""
    return refused(
        "schedulerName",
        f"the pod belongs to the scheduler {scheduler}, which is not {words}'s",
        "leave schedulerName out, or name the scheduler in the settings of the translation",
        path=_SCHEDULER,
    )


def policies(case: TranslationContext) -> Iterator[Change]:
    """Preferences for full or empty nodes and cards: HAMi's pods have them, elsewhere the scheduler has."""
    if case.source is Dialect.HAMI and case.target is not Dialect.HAMI:
        for key in (*_POLICIES, scoring_weights.KEY):
            if key in case.pod.annotations:
                yield DropEdit(("metadata", "annotations", key))
                yield _policy_lost(case, key)
    elif case.source is Dialect.KOORDINATOR and case.target is not Dialect.KOORDINATOR:
        words = [word for word, name in case.settings.profiles.items() if name == case.pod.scheduler]
        if words and case.target is Dialect.HAMI:
            yield PutEdit(("metadata", "annotations", DEVICE_POLICY_KEY), words[0])
            yield kept("schedulerName", f"the profile {case.pod.scheduler} becomes {DEVICE_POLICY_KEY}: {words[0]}")
        elif words:
            yield lost("schedulerName", f"the profile {case.pod.scheduler} has no equal: Volcano's policy is its own")


def isolation(case: TranslationContext) -> Iterator[Change]:
    """Limits are enforced on Koordinator's nodes only where label says so; HAMi's and Volcano's always do."""
    shared = case.asked.request.memory != WHOLE
    labelled = case.pod.labels.get(ISOLATION) == HAMI_CORE
    selected = dict(case.pod.constraints.selector).get(ISOLATION)
    if case.target is Dialect.KOORDINATOR:
        if case.source is not case.target and shared and not labelled:
            yield PutEdit(_LABEL, HAMI_CORE)
        elif not shared:
            yield from stray_label(case)
        if shared and selected != HAMI_CORE and (labelled or case.source is not case.target):
            yield PutEdit(_SELECTOR, HAMI_CORE)
        if case.source is case.target and shared and ISOLATION not in case.pod.labels:
            yield kept(ISOLATION, "without the label the container runs without limits", path=_LABEL)
        return
    if case.source is Dialect.KOORDINATOR:
        if ISOLATION in case.pod.labels:
            yield DropEdit(_LABEL)
        if selected is not None:
            yield DropEdit(_SELECTOR)
        if not case.asked.limited:
            yield lost(ISOLATION, _limits_today(case))


def _limits_today(case: TranslationContext) -> str:
    provider = case.pod.labels.get(ISOLATION)
    if provider is None:
        return f"the pod has no isolation-provider label, so Koordinator enforces no limits today; {case.target} will"
    return f"{provider!r} isolates the pod today; under {case.target} HAMi-core does"


def vendor(case: TranslationContext) -> Iterator[Change]:
    """Whose cards are meant: Koordinator's resources are the same for all vendors, the label of nodes is not.

    koordlet and koord-manager write the label from 1.7.0 on.
    """
    if case.target is not Dialect.KOORDINATOR or case.source is case.target:
        return
    wanted = VENDORS[NVIDIA]
    selected = dict(case.pod.constraints.selector).get(VENDOR_LABEL, wanted)
    if selected == wanted:
        yield PutEdit((*_NODE_SELECTOR, VENDOR_LABEL), wanted)
        return
    words = f"the pod asks for NVIDIA cards and selects nodes with cards of {selected}"
    yield refused(VENDOR_LABEL, words, f"write {wanted}, or leave it out", path=(*_NODE_SELECTOR, VENDOR_LABEL))


def labels_of_nodes(case: TranslationContext) -> Iterator[Change]:
    """Labels that only Koordinator's nodes have: a pod that asks for one fits nowhere else."""
    if case.source is not Dialect.KOORDINATOR or case.target is case.source:
        return
    if VENDOR_LABEL in dict(case.pod.constraints.selector):
        yield DropEdit(("spec", "nodeSelector", VENDOR_LABEL))
        yield kept(VENDOR_LABEL, f"{case.target}'s resources say whose cards are meant")
    terms = json.dumps(at(case.raw, ("spec", "affinity", "nodeAffinity")))
    for label in (ISOLATION, VENDOR_LABEL):
        if f'"{label}"' in terms:
            words = f"stays in the node affinity, and nodes of {case.target} do not have the label"
            yield lost(label, words, path=("spec", "affinity", "nodeAffinity"), remedy="take it out of the affinity")


def stray_label(case: TranslationContext) -> Iterator[Change]:
    """A label of another value on a pod of another scheduler, where there is nothing to limit."""
    value = case.pod.labels.get(ISOLATION, HAMI_CORE)
    if case.target is Dialect.KOORDINATOR and case.source is not case.target and value != HAMI_CORE:
        yield DropEdit(_LABEL)
        yield kept(ISOLATION, f"there is nothing to limit: the label {value!r} goes")


def runtime(case: TranslationContext) -> Iterator[Change]:
    """The runtime class that gives containers their cards; HAMi's webhook adds it itself."""
    wanted = case.settings.runtime_class
    if case.target is Dialect.KOORDINATOR and case.source is not case.target and wanted and not case.pod.runtime_class:
        yield PutEdit(("spec", "runtimeClassName"), wanted)


def _policy_word(case: TranslationContext) -> str:
    """The first policy that a profile stands for; a card policy has priority over a node policy."""
    words = [case.pod.annotations.get(key, "").split(",")[0].strip() for key in reversed(_POLICIES)]
    return next((word for word in words if word in case.settings.profiles), "")


def _policy_lost(case: TranslationContext, key: str) -> Change:
    value = case.pod.annotations[key]
    word = _policy_word(case)
    if case.target is Dialect.KOORDINATOR and word and key in _POLICIES:
        return lost(key, f"{value} becomes the scheduler {case.settings.profiles[word]}, for nodes and cards alike")
    return lost(
        key,
        f"{value} is given up: {case.target}'s scheduler has one policy for all pods",
        remedy="name a scheduler for each policy" if case.target is Dialect.KOORDINATOR else "",
        path=("metadata", "annotations", key),
    )
