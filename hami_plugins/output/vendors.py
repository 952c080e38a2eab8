"""Vendors as tables and as a document: how to ask for their devices, and what is known about these.

This module imports no answer about pods, so that ``hami-plugins vendors`` starts fast.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from hami_plugins.model.facts import Fact, Feature, Support
from hami_plugins.output.rows import Table, TableRow
from hami_plugins.output.schema import API_VERSION

if TYPE_CHECKING:
    from hami_plugins.model.vendor import VendorSpec
    from hami_plugins.output import schema

UNKNOWN: Final = Support.UNKNOWN.value


class VendorFeature(NamedTuple):
    """A feature with its name in sentences and its member in documents."""

    name: str
    member: str
    feature: Feature


def features(spec: VendorSpec) -> tuple[VendorFeature, ...]:
    """What a vendor's devices can do, in the order of every table. Filters are those of its annotation keys."""
    known, keys = spec.facts, spec.keys
    ids = _filter(spec, (*keys.use_ids, *keys.avoid_ids), known.ids)
    models = _filter(spec, (keys.use_models, keys.avoid_models), known.model_filter)
    return (
        VendorFeature("memory isolation", "memoryIsolation", known.memory),
        VendorFeature("core isolation", "coreIsolation", known.cores),
        VendorFeature("UUID filter", "idFilter", ids),
        VendorFeature("model filter", "modelFilter", models),
        VendorFeature("NUMA", "numa", known.numa),
        VendorFeature("topology", "topology", known.topology),
        VendorFeature("runtime class", "runtimeClass", known.runtime_class),
    )


def _filter(spec: VendorSpec, keys: Sequence[str], stated: Feature | None) -> Feature:
    named = ", ".join(key for key in keys if key)
    if named:
        return Feature(Support.YES, named, spec.facts.code)
    return stated or Feature(Support.NO, "", spec.facts.code)


def statements(spec: VendorSpec) -> tuple[tuple[str, str, Fact], ...]:
    """What is known about a vendor's devices besides features: the name, the member in documents, the fact."""
    known = spec.facts
    return (
        ("models", "models", known.models),
        ("device plugin", "plugin", known.plugin),
        ("chart", "chart", known.chart),
        ("node label", "nodeLabel", known.node_label),
    )


def resources(specs: Iterable[VendorSpec]) -> Table:
    """A row per vendor: how it is asked for."""
    return Table(
        columns=("VENDOR", "DEVICE", "COUNT", "MEMORY", "CORES", "MEMORY IN", "CORES IN"),
        rows=tuple(
            TableRow(
                (
                    spec.name,
                    spec.title,
                    spec.resources.count,
                    spec.resources.memory or "-",
                    spec.resources.cores or "-",
                    spec.memory_step or "-",
                    spec.core_step or "-",
                )
            )
            for spec in specs
        ),
        whole=frozenset({0, 2, 3, 4}),
        optional=(6, 1, 5, 4),
    )


def matrix(specs: Sequence[VendorSpec]) -> Table:
    """A row per vendor: which features its devices have."""
    names = [each.name.upper() for each in features(specs[0])]
    return Table(
        columns=("VENDOR", *names, "MODELS"),
        rows=tuple(
            TableRow(
                (
                    spec.name,
                    *(each.feature.support.value for each in features(spec)),
                    spec.facts.models.words or UNKNOWN,
                )
            )
            for spec in specs
        ),
        whole=frozenset(range(len(names) + 1)),
        optional=(len(names) + 1,),
    )


def detail(spec: VendorSpec) -> Table:
    """One vendor in full, a row per fact, with the source of what is known about its devices."""
    rows = (*((name, value, "") for name, value in _names(spec)), *facts(spec))
    return Table(
        columns=("FACT", "VALUE", "SOURCE"),
        rows=tuple(TableRow(row) for row in rows if row[1]),
        whole=frozenset({0}),
        optional=(2,),
        wrapped=frozenset({2}),
    )


def _names(spec: VendorSpec) -> Sequence[tuple[str, str]]:
    names, keys, options = spec.resources, spec.keys, spec.options
    written = (keys.to_allocate, keys.allocated, *keys.extra, *keys.of_webhook)
    return (
        ("vendor", spec.name),
        ("device", spec.title),
        ("maker", spec.vendor),
        ("scheduler", spec.dialect),
        ("count", names.count),
        ("memory", names.memory),
        ("memory percentage", names.memory_percentage),
        ("cores", names.cores),
        ("priority", names.priority),
        ("memory in", spec.memory_step),
        ("cores in", spec.core_step),
        (f"several {spec.noun}s", spec.several),
        ("default count", str(options.default_count or "")),
        ("default memory", f"{options.default_memory} MiB" if options.default_memory else ""),
        ("default cores", str(options.default_cores or "")),
        (f"choose {spec.noun}s", ", ".join(keys.use_ids)),
        (f"avoid {spec.noun}s", ", ".join(keys.avoid_ids)),
        ("choose models", keys.use_models),
        ("avoid models", keys.avoid_models),
        ("choose mode", keys.mode),
        ("annotations read", ", ".join(keys.inputs)),
        ("node register", keys.register),
        ("handshake", keys.handshake),
        ("node lock", keys.lock),
        ("written on pods", ", ".join(dict.fromkeys(filter(None, written)))),
        ("names and rules from", spec.facts.code),
    )


def facts(spec: VendorSpec) -> Iterator[tuple[str, str, str]]:
    """What is known about a vendor's devices: the name, the answer in words, the source."""
    for name, _, fact in statements(spec):
        yield name, fact.words or UNKNOWN, fact.source
    for name, _, (support, words, source) in features(spec):
        yield name, f"{support.value}: {words}" if words else support.value, source


def document(specs: Iterable[VendorSpec]) -> schema.VendorListDocument:
    """Vendors with everything that one has to know to ask for them."""
    return {"apiVersion": API_VERSION, "kind": "VendorList", "items": [_document(spec) for spec in specs]}


def _document(spec: VendorSpec) -> schema.VendorDocument:
    names, keys, options = spec.resources, spec.keys, spec.options
    return {
        "name": spec.name,
        "title": spec.title,
        "maker": spec.vendor,
        "dialect": spec.dialect.value,
        "resources": _set(
            {
                "count": names.count,
                "memory": names.memory,
                "memoryPercentage": names.memory_percentage,
                "cores": names.cores,
                "priority": names.priority,
            }
        ),
        "annotations": {
            "useIds": list(keys.use_ids),
            "avoidIds": list(keys.avoid_ids),
            "useModels": _listed(keys.use_models),
            "avoidModels": _listed(keys.avoid_models),
            "mode": _listed(keys.mode),
            "read": list(keys.inputs),
            "register": _listed(keys.register),
            "handshake": _listed(keys.handshake),
            "lock": _listed(keys.lock),
            "toAllocate": _listed(keys.to_allocate),
            "allocated": _listed(keys.allocated),
            "written": [*keys.extra, *keys.of_webhook],
        },
        "memoryUnitMiB": spec.memory_factor() if names.memory else 0,
        "memoryStep": spec.memory_step,
        "coreStep": spec.core_step,
        "severalCards": spec.several,
        "defaults": {
            "count": options.default_count,
            "memoryMiB": options.default_memory,
            "cores": options.default_cores,
        },
        "source": spec.facts.code,
        "features": {
            member: {"support": feature.support.value, "words": feature.words, "source": feature.source}
            for _, member, feature in features(spec)
        },
        "facts": {member: {"words": fact.words, "source": fact.source} for _, member, fact in statements(spec)},
    }


def _set(words: Mapping[str, str]) -> dict[str, str]:
    return {key: word for key, word in words.items() if word}


def _listed(word: str) -> list[str]:
    return [word] if word else []
