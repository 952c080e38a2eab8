"""Annotations of a pod that nothing reads: misspelt, dead, for another vendor or scheduler, or meant for nodes.

``vet`` makes its findings HP401 to HP405 and HP407 of these, ``plan`` its notes, so that the two never disagree.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

from hami_plugins.engine.policies import NUMA_BIND_KEY
from hami_plugins.inputs import typos
from hami_plugins.inputs.excerpts import excerpt
from hami_plugins.inputs.vocabulary import (
    DEAD_KEYS,
    HAMI_DOMAIN,
    IGNORE_KEY,
    POLICY_KEYS,
    WRONG_VOLCANO_KEYS,
    Vocabulary,
    domain,
    speaks,
)
from hami_plugins.model.dialect import Dialect
from hami_plugins.model.vendor import VendorSpec
from hami_plugins.vendors.volcano import STRATEGY_KEYS

_PREFERENCE: Final = re.compile(r"(^(no-?)?use-)|uuid|gpu|npu|policy|-mode$|bind|type$|weights", re.IGNORECASE)
"""Keys that look like a preference for a scheduler."""


class UnreadKey(NamedTuple):
    """An annotation without a reader: its key, the sentence about it, what to do, and the keys it may be meant for."""

    key: str
    words: str
    remedy: str
    meant: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class AnnotatedPod:
    """What the rules look at: a pod's annotations, and the names of all resources that its containers request."""

    annotations: Mapping[str, str]
    resources: tuple[str, ...]
    vocabulary: Vocabulary

    @cached_property
    def asked(self) -> tuple[VendorSpec, ...]:
        """The vendors whose resources any container names."""
        owners = (self.vocabulary.resources.get(name) for name in self.resources)
        return tuple({spec.name: spec for spec in owners if spec is not None}.values())

    @property
    def asks_a_maker(self) -> bool:
        """Whether any resource is in some vendor's domain, known or not."""
        return any(domain(name) in self.vocabulary.domains for name in self.resources)

    def said(self, key: str) -> str:
        """How sentences begin."""
        return f"annotation {key}={excerpt(self.annotations[key])}"


def misspelt(pod: AnnotatedPod) -> Iterator[UnreadKey]:
    """Keys near one that is read."""
    for key in _strangers(pod):
        meant = _meant(key, pod)
        if meant:
            yield UnreadKey(
                key, f"{pod.said(key)}: nothing reads this key", f"did you mean {' or '.join(meant)}?", meant
            )


def unknown(pod: AnnotatedPod) -> Iterator[UnreadKey]:
    """Keys in a vendor's domain that are near nothing."""
    for key in _strangers(pod):
        home = domain(key)
        preferred = home == HAMI_DOMAIN or (
            home in pod.vocabulary.domains and _PREFERENCE.search(key.rpartition("/")[2])
        )
        if preferred and not _meant(key, pod):
            yield UnreadKey(
                key,
                f"{pod.said(key)}: nothing reads this key",
                "drop it, or write a key that `hami-plugins vendors` lists",
            )


def dead(pod: AnnotatedPod) -> Iterator[UnreadKey]:
    """Keys that a vendor defines and never reads."""
    for key in pod.annotations:
        if key in DEAD_KEYS and key not in pod.vocabulary.readers:
            yield UnreadKey(
                key,
                f"{pod.said(key)}: the vendor defines this key, and nothing reads it",
                f"select nodes by their labels, or cards by {DEAD_KEYS[key]}",
            )


def of_another_vendor(pod: AnnotatedPod) -> Iterator[UnreadKey]:
    """Keys of vendors that the pod does not ask."""
    if not pod.asked and pod.asks_a_maker:
        return
    for key in pod.annotations:
        readers = pod.vocabulary.readers.get(key)
        if readers is None:
            continue
        if key == NUMA_BIND_KEY:
            readers = tuple(spec for spec in pod.vocabulary.specs if spec.fitting.binds_numa)
        names = {spec.name for spec in readers}
        if any(spec.name in names for spec in pod.asked):
            continue
        whose = " or ".join(dict.fromkeys(spec.title for spec in readers))
        own = [each for spec in pod.asked for each in (*spec.keys.use_ids, spec.keys.use_models) if each]
        selects = bool(own) and key in pod.vocabulary.selectors
        yield UnreadKey(
            key,
            f"{pod.said(key)} is for {whose}, which no container of the pod asks for",
            f"use {' or '.join(own)}, or drop it" if selects else "drop it",
        )


def policies(pod: AnnotatedPod) -> Iterator[UnreadKey]:
    """HAMi's preferences on pods that HAMi's scheduler does not place."""
    if speaks(Dialect.HAMI, pod.asked):
        return
    in_volcano_words = speaks(Dialect.VOLCANO, pod.asked)
    if not in_volcano_words and pod.asks_a_maker:
        return
    for key in POLICY_KEYS:
        if key not in pod.annotations:
            continue
        if in_volcano_words:
            why = "Volcano orders cards by the argument deviceshare.SchedulePolicy, not by the pod"
            fix = "set the policy in the scheduler's configuration"
        else:
            why, fix = "no container of the pod asks for devices", "drop it"
        yield UnreadKey(key, f"{pod.said(key)} is ignored: {why}", fix)


def of_nodes(pod: AnnotatedPod) -> Iterator[UnreadKey]:
    """Keys for nodes on pods."""
    for key in pod.annotations:
        if key in pod.vocabulary.of_nodes:
            yield UnreadKey(key, f"{pod.said(key)} is read on nodes, not on pods", "drop it")


UnreadRule = Callable[[AnnotatedPod], Iterator[UnreadKey]]

RULES: Final[tuple[UnreadRule, ...]] = (misspelt, unknown, dead, of_another_vendor, policies, of_nodes)
"""In the order of ``vet``."""


def unread(pod: AnnotatedPod) -> Iterator[UnreadKey]:
    """Every annotation of a pod that nothing reads."""
    for rule in RULES:
        yield from rule(pod)


def _strangers(pod: AnnotatedPod) -> Iterator[str]:
    """The keys of annotations that mean nothing to any component known here."""
    words = pod.vocabulary
    for key in pod.annotations:
        known = key in words.readers or key in POLICY_KEYS or key in words.written or key in words.of_nodes
        other = key in DEAD_KEYS or key in WRONG_VOLCANO_KEYS or key in words.resources or key in STRATEGY_KEYS
        if "/" in key and not known and not other and key != IGNORE_KEY:
            yield key


def _meant(key: str, pod: AnnotatedPod) -> tuple[str, ...]:
    """The keys that a strange one is likely to mean."""
    for specs in (pod.asked, pod.vocabulary.specs):
        own = pod.vocabulary.own_selector(key, specs)
        if own:
            return own[:3]
    return typos.closest(key, pod.vocabulary.inputs)[:3]
