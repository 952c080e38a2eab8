"""HP41x: annotations whose values mean nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from hami_plugins.errors import WireError
from hami_plugins.inputs import typos
from hami_plugins.inputs.excerpts import excerpt
from hami_plugins.vet import facts
from hami_plugins.vet.context import Context, each_pod
from hami_plugins.vet.findings import RewriteFix, VetRule, VetSeverity, Violation
from hami_plugins.vet.resources import PodView
from hami_plugins.wire import scoring_weights


def meaningless(pod: PodView, _: Context) -> Iterator[Violation]:
    """Values outside the few that there are."""
    for key, wrong in wrong_words(pod):
        words = facts.VALUES[key]
        value = pod.annotations[key]
        near = typos.nearest(wrong, words.allowed)
        yield Violation(
            pod.annotation(key),
            f"annotation {key}={excerpt(value)}: {wrong or 'an empty text'!r} means nothing",
            f"write {near}" if near else f"write {_either(words.allowed[: words.shown])}",
            RewriteFix(pod.annotation(key), near) if near and not words.many else None,
            VetSeverity.ERROR if key in facts.REFUSED_VALUES else None,
        )


def _either(words: Sequence[str]) -> str:
    return f"{', '.join(words[:-1])} or {words[-1]}" if len(words) > 1 else words[0]


def wrong_words(pod: PodView) -> Iterator[tuple[str, str]]:
    """The annotations with a fixed set of values, and the first word of each that is none of them."""
    for key, words in facts.VALUES.items():
        if key not in pod.annotations:
            continue
        value = pod.annotations[key]
        parts = [part.strip() for part in value.split(",")] if words.many else [value]
        wrong = next((part for part in parts if part not in words.allowed), None)
        if wrong is not None:
            yield key, wrong


def blank_selector(pod: PodView, context: Context) -> Iterator[Violation]:
    """Selectors that select nothing in particular, or nothing at all."""
    for key, value in pod.annotations.items():
        if key not in context.vocabulary.selectors or value.replace(",", "").strip():
            continue
        if value.strip():
            what, severity = "is a list of nothing, and no card is in it", VetSeverity.ERROR
        else:
            what, severity = "is empty, which selects every card", None
        yield Violation(
            pod.annotation(key),
            f"annotation {key}={value!r} {what}",
            "list ids or models, separated by commas, or drop it",
            severity=severity,
        )


def weights(pod: PodView, _: Context) -> Iterator[Violation]:
    """Scoring weights that do not parse."""
    text = pod.annotations.get(scoring_weights.KEY)
    if text is None:
        return
    try:
        scoring_weights.parse(text)
    except WireError as error:
        yield Violation(
            pod.annotation(scoring_weights.KEY),
            f"annotation {scoring_weights.KEY}={excerpt(text)}: {error.why}; HAMi refuses to schedule such a pod",
            "write slot=1,core=1,memory=1 with your own whole numbers",
        )


def contradiction(pod: PodView, context: Context) -> Iterator[Violation]:
    """Ids or models that are wanted and refused."""
    seen: set[tuple[str, str]] = set()
    for spec in context.asked_by(pod):
        pairs = [(use, avoid) for use in spec.keys.use_ids for avoid in spec.keys.avoid_ids]
        pairs.append((spec.keys.use_models, spec.keys.avoid_models))
        for use, avoid in pairs:
            wanted, refused = _listed(pod, use), _listed(pod, avoid)
            if not wanted & refused or (use, avoid) in seen:
                continue
            seen.add((use, avoid))
            both = ", ".join(sorted(wanted & refused))
            yield Violation(
                pod.annotation(avoid),
                f"annotations {use} and {avoid} both name {both}; what is to be avoided wins"
                + ("" if wanted - refused else ", so no card is left"),
                "drop it from one of the two",
                severity=None if wanted - refused else VetSeverity.ERROR,
            )


def _listed(pod: PodView, key: str) -> set[str]:
    return {part.strip().lower() for part in pod.annotations.get(key, "").split(",")} - {""}


RULES: Final = (
    VetRule(
        id="HP411",
        name="meaningless-value",
        severity=VetSeverity.WARNING,
        summary="An annotation with a fixed set of values has another value.",
        why="Unknown words are taken for the default, and a pod-wide default of the operator is lost as well.",
        fix="Write one of the words that exist.",
        check=each_pod(meaningless),
    ),
    VetRule(
        id="HP412",
        name="blank-selector",
        severity=VetSeverity.WARNING,
        summary="A selector of cards is empty.",
        why="Empty means every card; a list of nothing but commas means none, and the pod fits nowhere.",
        fix="List ids or models, or drop it.",
        check=each_pod(blank_selector),
    ),
    VetRule(
        id="HP413",
        name="invalid-weights",
        severity=VetSeverity.ERROR,
        summary="hami.io/device-scoring-weights does not parse.",
        why="HAMi's scheduler answers with an error, and the pod stays pending.",
        fix="Write slot=, core= and memory=, whole numbers from 0, not all 0.",
        check=each_pod(weights),
    ),
    VetRule(
        id="HP414",
        name="contradictory-selectors",
        severity=VetSeverity.WARNING,
        summary="A card or model is both selected and refused.",
        why="The refusal wins.",
        fix="Drop it from one list.",
        check=each_pod(contradiction),
    ),
)
