"""Kinds whose pods only one scheduler's own controllers create or hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from hami_plugins.model.dialect import Dialect
from koordinator_adapter.core.translation.model import TranslationFinding, lost, refused


class _Owner(NamedTuple):
    """The owner of a kind, and its controller's behaviour."""

    dialect: Dialect
    does: str


_ONLY: Final[Mapping[tuple[str, str], _Owner]] = {
    ("scheduling.koordinator.sh", "Reservation"): _Owner(
        Dialect.KOORDINATOR, "Koordinator's scheduler keeps devices for later pods"
    ),
    ("training.volcano.sh", "HyperJob"): _Owner(Dialect.VOLCANO, "Volcano's controller creates jobs of Volcano for it"),
    ("flow.volcano.sh", "JobTemplate"): _Owner(Dialect.VOLCANO, "Volcano's controller creates jobs of Volcano from it"),
    ("batch.volcano.sh", "CronJob"): _Owner(Dialect.VOLCANO, "Volcano's controller creates jobs of Volcano from it"),
}
_GROVE: Final = "grove.io"


def of_kind(group: str, kind: str, target: Dialect) -> TranslationFinding | None:
    """What is to be known of an object whose pods change their scheduler, because of its kind."""
    owner = _ONLY.get((group, kind))
    if owner is not None and owner.dialect is not target:
        words = f"{owner.does}; no other controller or scheduler does"
        return refused(kind, words, f"leave it to {owner.dialect}, or write its pods as a kind of Kubernetes")
    if group == _GROVE:
        return lost(kind, f"Grove's operator creates a PodGang of the pods, which {target}'s scheduler may not read")
    return None
