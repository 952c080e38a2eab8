"""Every key of Koordinator's that the code spells is one of the reference, and where the reference says it stands."""

from __future__ import annotations

from hami_plugins.wire import koordinator, koordinator_devices, koordinator_hints
from koordinator_adapter.core.translation import vocabulary
from tests.golden.cases import Case, each, of

LABELS = {
    vocabulary.ISOLATION,
    vocabulary.GROUP,
    vocabulary.OLD_GROUP,
    vocabulary.QUOTA,
    vocabulary.MODEL_LABEL,
    vocabulary.VENDOR_LABEL,
    vocabulary.SCHEDULER_LABEL,
    koordinator_devices.MODEL_LABEL,
    koordinator_devices.VENDOR_LABEL,
    *vocabulary.CLASS_LABELS,
}
ANNOTATIONS = {
    vocabulary.HINT,
    vocabulary.JOINT,
    vocabulary.PARTITION,
    vocabulary.RESERVATION,
    vocabulary.GANG_NAME,
    vocabulary.MIN_AVAILABLE,
    vocabulary.WAITING,
    vocabulary.MODE,
    koordinator.ALLOCATED_KEY,
    koordinator_devices.PARTITIONS_KEY,
    koordinator_hints.KEY,
    *vocabulary.RECORDS,
}


UNUSED = {case.id for case in of("koordinator/keys.yaml") if case.given["key"] not in LABELS | ANNOTATIONS}
"""Keys that nothing here reads or writes."""


@each("koordinator/keys.yaml", without=UNUSED)
def test_a_key_stands_where_the_reference_says(case: Case) -> None:
    key, kind = case.given["key"], case.given["kind"]
    assert key in {"label": LABELS, "annotation": ANNOTATIONS}[kind]


def test_no_key_is_misspelt() -> None:
    known = {case.given["key"] for case in of("koordinator/keys.yaml")}
    assert known >= LABELS | ANNOTATIONS
