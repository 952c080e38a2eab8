"""Which cards a pod accepts: by id, by model, by mode, and how near to each other."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from hami_plugins.engine.demand import WHOLE
from hami_plugins.engine.policies import NUMA_BIND_KEY
from hami_plugins.errors import WireError
from hami_plugins.model.dialect import Dialect
from hami_plugins.model.edits import AppendEdit, DropEdit, Path, PutEdit, RenameEdit
from hami_plugins.wire import documents, scalars
from koordinator_adapter.core.translation.model import Change, TranslationContext, at, kept, lost, refused
from koordinator_adapter.core.translation.resources import spec_of
from koordinator_adapter.core.translation.vocabulary import DEVICE_ID_LABEL, HINT, MODEL_LABEL

_REQUIRED: Final = ("spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
_TERMS: Final[Path] = (*_REQUIRED, "nodeSelectorTerms")
_SCOPE: Final = "requiredTopologyScope"
_NUMA: Final = "NUMANode"
_SHARED_MODE: Final = "hami-core"


def cards(case: TranslationContext) -> Iterator[Change]:
    """Lists of ids, the wish for one NUMA node, and the hint that says both to Koordinator."""
    if case.source is Dialect.KOORDINATOR:
        yield from _from_hint(case)
    elif case.target is Dialect.KOORDINATOR:
        yield from _to_hint(case)
    else:
        yield from _between(case)


def no_hint(case: TranslationContext) -> Iterator[Change]:
    """The hint about cards that are not NVIDIA's, which other schedulers cannot be given."""
    if case.target is not Dialect.KOORDINATOR and HINT in case.pod.annotations:
        words = f"{case.target} cannot express this hint"
        yield refused(HINT, words, "leave the annotation out", path=("metadata", "annotations", HINT))


def models(case: TranslationContext) -> Iterator[Change]:
    """Dialect in the model of a card; Koordinator knows whole names, as labels of nodes."""
    if case.source is Dialect.KOORDINATOR:
        if case.target is not Dialect.KOORDINATOR:
            yield from _model_of_nodes(case)
        return
    keys = spec_of(case, case.source).keys
    use, avoid = case.pod.annotations.get(keys.use_models), case.pod.annotations.get(keys.avoid_models)
    if case.target is Dialect.KOORDINATOR:
        yield from _models_to_nodes(case)
    elif case.target is Dialect.VOLCANO and use is not None and avoid is not None:
        yield lost(keys.avoid_models, f"Volcano does not read it besides {keys.use_models}")


def mode(case: TranslationContext) -> Iterator[Change]:
    """How cards are divided; Koordinator's are shared by HAMi-core or not at all."""
    if case.source is Dialect.KOORDINATOR:
        return
    key = spec_of(case, case.source).keys.mode
    value = case.pod.annotations.get(key)
    if value is None:
        return
    path = ("metadata", "annotations", key)
    if case.target is Dialect.KOORDINATOR:
        if _SHARED_MODE in value.split(","):
            yield DropEdit(path)
        else:
            yield refused(key, f"Koordinator has no cards in mode {value}", f"ask for {_SHARED_MODE}", path=path)
    elif value in {_SHARED_MODE, "mig"}:
        yield RenameEdit(path, spec_of(case, case.target).keys.mode, value)
        if value == "mig":
            yield lost(key, f"{case.target} cuts cards into other partitions than {case.source}", path=path)
    else:
        yield refused(key, f"{case.target} has no cards in mode {value}", f"ask for {_SHARED_MODE}", path=path)


def _to_hint(case: TranslationContext) -> Iterator[Change]:
    selector, given = case.asked.request.selector, case.pod.annotations
    keys = spec_of(case, case.source).keys
    named = [key for key in (*keys.use_ids, *keys.avoid_ids) if key in given]
    hint: dict[str, object] = {}
    if selector.names_ids and not case.settings.device_labels:
        yield refused(
            named[0],
            "Koordinator selects cards by labels of its Device objects, and koordlet's have none",
            f"publish Device objects with the label {DEVICE_ID_LABEL} (and say so), or leave the list out",
            path=("metadata", "annotations", named[0]),
        )
        return
    if selector.names_ids:
        hint["selector"] = {"matchExpressions": _expressions(selector.use_ids, selector.avoid_ids)}
    yield from (DropEdit(("metadata", "annotations", key)) for key in named)
    if case.source is Dialect.HAMI and NUMA_BIND_KEY in given:
        yield DropEdit(("metadata", "annotations", NUMA_BIND_KEY))
        if _is_true(given[NUMA_BIND_KEY]):
            if case.asked.request.count > 1 and case.asked.request.memory != WHOLE:
                yield refused(
                    NUMA_BIND_KEY,
                    "Koordinator gives no parts of several cards within one NUMA node",
                    "ask for whole cards or for one card, or leave the annotation out",
                    path=("metadata", "annotations", NUMA_BIND_KEY),
                )
            hint[_SCOPE] = _NUMA
    if hint:
        yield from _merged(given.get(HINT), hint)


def _merged(text: str | None, hint: Mapping[str, object]) -> Iterator[Change]:
    """The hint for cards in addition to hints for other devices; an existing hint for cards wins."""
    try:
        known = documents.load(HINT, text) if text is not None else {}
    except WireError:
        return  # it is refused as unreadable
    if isinstance(known, dict) and "gpu" not in known:
        yield PutEdit(("metadata", "annotations", HINT), documents.dump({**known, "gpu": hint}))
    elif isinstance(known, dict):
        path = ("metadata", "annotations", HINT)
        words = "selects cards, and so do the pod's own annotations"
        yield refused(HINT, words, "keep one of the two", path=path)


def _expressions(use: frozenset[str] | None, avoid: frozenset[str] | None) -> list[object]:
    return [
        {"key": DEVICE_ID_LABEL, "operator": operator, "values": sorted(ids)}
        for operator, ids in (("In", use), ("NotIn", avoid))
        if ids is not None
    ]


def _from_hint(case: TranslationContext) -> Iterator[Change]:
    text = case.pod.annotations.get(HINT)
    if text is None or case.target is Dialect.KOORDINATOR:
        return
    path = ("metadata", "annotations", HINT)
    hint = _gpu_hint(text)
    if hint is None:
        yield refused(
            HINT,
            f"{case.target} cannot express this hint",
            f"keep only {_SCOPE}: {_NUMA} and a selector of {DEVICE_ID_LABEL} for gpu",
            path=path,
        )
        return
    keys = spec_of(case, case.target).keys
    yield DropEdit(path)
    for operator, key in (("In", keys.use_ids[0]), ("NotIn", keys.avoid_ids[0])):
        ids = hint.get(operator)
        if ids is not None:
            yield PutEdit(("metadata", "annotations", key), ",".join(ids))
    if _SCOPE not in hint:
        return
    if case.target is Dialect.HAMI:
        yield PutEdit(("metadata", "annotations", NUMA_BIND_KEY), "true")
    else:
        yield lost(HINT, "Volcano does not keep the cards of a pod within one NUMA node", path=path)


def _gpu_hint(text: str) -> Mapping[str, Sequence[str]] | None:
    """The ids of a hint by operator, and the scope; ``None`` for one that says anything else."""
    try:
        whole = documents.load(HINT, text)
    except WireError:
        return None
    gpu = whole.get("gpu") if isinstance(whole, dict) and len(whole) == 1 else None
    if not isinstance(gpu, dict) or not gpu.keys() <= {"selector", _SCOPE} or gpu.get(_SCOPE, _NUMA) != _NUMA:
        return None
    found: dict[str, Sequence[str]] = {_SCOPE: [_NUMA]} if _SCOPE in gpu else {}
    selector = gpu.get("selector", {"matchExpressions": []})
    terms = selector.get("matchExpressions") if isinstance(selector, dict) and len(selector) == 1 else None
    if not isinstance(terms, list):
        return None
    for term in terms:
        ids = _ids_of(term)
        if ids is None or ids[0] in found:
            return None
        found[ids[0]] = ids[1]
    return found


def _ids_of(term: object) -> tuple[str, Sequence[str]] | None:
    if not isinstance(term, dict) or term.get("key") != DEVICE_ID_LABEL or term.get("operator") not in {"In", "NotIn"}:
        return None
    values = term.get("values")
    if not isinstance(values, list) or not all(isinstance(each, str) for each in values):
        return None
    return term["operator"], values


def _between(case: TranslationContext) -> Iterator[Change]:
    """HAMi's and Volcano's lists of ids mean the same; Volcano's own scheduler reads none of them."""
    old, new, given = spec_of(case, case.source).keys, spec_of(case, case.target).keys, case.pod.annotations
    for was, becomes in ((old.use_ids, new.use_ids[0]), (old.avoid_ids, new.avoid_ids[0])):
        named = [key for key in was if key in given]
        if named:
            yield from _one_list(case, named, becomes)
            if case.target is Dialect.VOLCANO:
                words = "Volcano's scheduler up to 1.14 reads no list of ids; the allocator of this package does"
                yield lost(becomes, words)
    if case.target is Dialect.VOLCANO and NUMA_BIND_KEY in given:
        yield DropEdit(("metadata", "annotations", NUMA_BIND_KEY))
        if _is_true(given[NUMA_BIND_KEY]):
            yield lost(NUMA_BIND_KEY, "Volcano does not keep the cards of a pod within one NUMA node")


def _one_list(case: TranslationContext, named: Sequence[str], becomes: str) -> Iterator[Change]:
    """Several lists of one meaning become one, with what they mean together."""
    given, selector = case.pod.annotations, case.asked.request.selector
    if len(named) == 1:
        if named[0] != becomes:
            yield RenameEdit(("metadata", "annotations", named[0]), becomes, given[named[0]])
        return
    wanted = spec_of(case, case.source).keys.use_ids
    ids = selector.use_ids if named[0] in wanted else selector.avoid_ids
    yield from (DropEdit(("metadata", "annotations", key)) for key in named if key != becomes)
    yield PutEdit(("metadata", "annotations", becomes), ",".join(sorted(ids or ())))


def _models_to_nodes(case: TranslationContext) -> Iterator[Change]:
    selector, keys = case.asked.request.selector, spec_of(case, case.source).keys
    named = [key for key in (keys.use_models, keys.avoid_models) if key in case.pod.annotations]
    if selector.use_models is None and selector.avoid_models is None:
        yield from (DropEdit(("metadata", "annotations", key)) for key in named)
        return
    known = case.settings.models
    chosen = [name for name in known if _wanted(name.lower(), selector.use_models, selector.avoid_models)]
    if not chosen:
        yield refused(
            named[0],
            f"none of the models {', '.join(known)} is meant" if known else "the models of the cluster are not known",
            f"name the models as the nodes' label {MODEL_LABEL} spells them",
            path=("metadata", "annotations", named[0]),
        )
        return
    yield from (DropEdit(("metadata", "annotations", key)) for key in named)
    yield lost(
        named[0],
        f"parts of a model's name become the models that there are now: {', '.join(chosen)}; a new one is left out",
    )
    expression = {"key": MODEL_LABEL, "operator": "In", "values": chosen}
    terms = at(case.raw, _TERMS)
    if not isinstance(terms, list) or not terms:
        yield PutEdit(_TERMS, [{"matchExpressions": [expression]}])
        return
    yield from (AppendEdit((*_TERMS, index, "matchExpressions"), expression) for index in range(len(terms)))


def _wanted(model: str, use: Sequence[str] | None, avoid: Sequence[str] | None) -> bool:
    if use is not None and not any(word in model for word in use):
        return False
    return avoid is None or not any(word in model for word in avoid)


def _model_of_nodes(case: TranslationContext) -> Iterator[Change]:
    model = dict(case.pod.constraints.selector).get(MODEL_LABEL)
    if model is not None:
        key = spec_of(case, case.target).keys.use_models
        yield DropEdit(("spec", "nodeSelector", MODEL_LABEL))
        yield PutEdit(("metadata", "annotations", key), model)
        yield lost(MODEL_LABEL, f"becomes {key}: {model}, which every model with that in its name meets")
    if MODEL_LABEL in json.dumps(at(case.raw, _TERMS)):
        yield kept(MODEL_LABEL, "stays as node affinity, so nodes must keep the label")


def _is_true(text: str) -> bool:
    try:
        return scalars.truth(text)
    except ValueError:
        return False
