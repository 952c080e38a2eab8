"""What admission goes by: what an operator has set, and what the cluster is like."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

from hami_plugins.model.units import MiB
from koordinator_adapter.core.translation.model import TranslationOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFacts:
    """What the cluster says itself: models of cards, whether all cards carry their ids, the largest card and the sizes
    of all, namespaces that Koordinator's webhook leaves out, whether limits have to be injected on some node, and the
    PodGroups (by full name) and quotas of Koordinator's scheduler."""

    models: tuple[str, ...] = ()
    device_labels: bool = False
    card_memory: MiB | None = None
    card_sizes: frozenset[MiB] = frozenset()
    unserved: frozenset[str] = frozenset()
    lacks_hook: bool = True
    groups: frozenset[str] = frozenset()
    quotas: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionPolicy:
    """The operator's settings.

    ``models``, ``device_labels`` and ``card_memory`` of ``translation`` count where their names are in ``fixed``, and
    otherwise what the cluster says.
    """

    translation: TranslationOptions = field(default_factory=TranslationOptions)
    fixed: frozenset[str] = frozenset()
    without_limits: Literal["refuse", "warn", "allow"] = "warn"
    injects: Literal["auto", "always", "never"] = "never"
    hook_path: str = "/usr/local/vgpu"
    lock_path: str = "/tmp/vgpulock"  # noqa: S108 - where HAMi-core's containers meet on every node

    def injects_now(self, facts: ClusterFacts) -> bool:
        """Whether pods get their limits from us."""
        return self.injects == "always" or (self.injects == "auto" and facts.lacks_hook)

    def settings(self, facts: ClusterFacts) -> TranslationOptions:
        """The settings of a translation in this cluster."""
        live = {
            "models": facts.models,
            "device_labels": facts.device_labels,
            "card_memory": facts.card_memory,
            "card_sizes": facts.card_sizes,
            "unserved": self.translation.unserved | facts.unserved,
            "groups": facts.groups,
            "quotas": facts.quotas,
        }
        changes = {name: value for name, value in live.items() if name not in self.fixed}
        return replace(self.translation, **changes)  # type: ignore[arg-type]
