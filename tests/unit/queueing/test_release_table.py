"""Which releases of Volcano do what, as their sources say; and that the table has one answer for each."""

from __future__ import annotations

import pytest

from hami_plugins.queueing.release_table import SECTIONS
from hami_plugins.vendors import volcano_releases
from hami_plugins.vendors.volcano_releases import KNOWN, Quirk, ReleaseEvidence, known_release
from tests.golden.releases_page import spans

SERIES_14 = ["1.14.0", "1.14.1", "1.14.2", "1.14.3", "1.14.4"]
SERIES_15 = ["1.15.0", "1.15.1"]
NEWEST = "1.16.0-alpha.1"


@pytest.mark.parametrize(
    ("name", "releases"),
    [
        ("HANDSHAKE", ["1.14.0", "1.14.1", "1.14.2", "1.15.0"]),
        ("SUMS_NEEDED", ["1.14.3", "1.14.4", "1.15.1", NEWEST]),
        ("NPU_HEALTH_IGNORED", ["1.14.0", "1.14.1", "1.14.2", "1.15.0"]),
        ("NO_NPU_WRAPPER", ["1.14.0", "1.14.1", "1.14.2", "1.14.3", "1.15.0"]),
        ("COUNTED_TWICE", SERIES_14),
        ("FIRST_CONTAINER", [*SERIES_15, NEWEST]),
        ("CRASH", ["1.14.1"]),
        ("GANG_TOGETHER", SERIES_14),
        ("ID_LISTS", [*SERIES_14, *SERIES_15]),
        ("RANKS_NODES_ONLY", SERIES_14),
        ("NO_EXCLUSIVE_RULES", SERIES_14),
        ("NO_BUNDLES", SERIES_14),
        ("NO_QUEUE_GATE", SERIES_14),
        ("NO_CLAIM_QUOTA", SERIES_14),
        ("NO_CARDS_IN_COPIES", SERIES_14),
        ("EVICTS_IN_VAIN", SERIES_14),
        ("TAKES_BACK", [*SERIES_15, NEWEST]),
        ("VICTIMS_STILL_RUNNING", [*SERIES_15, NEWEST]),
        ("FOREIGN_GANG_CARDS", SERIES_15),
        ("STRIPPED_VICTIMS", ["1.14.3", "1.14.4", "1.15.1"]),
        ("STALE_GANG", [*SERIES_14, *SERIES_15]),
        ("BOOKED_BY_TRIES", [*SERIES_14, NEWEST]),
        ("ALLOCATION_BY_BINDING", [NEWEST]),
        ("NO_SOFT_NPUS", [*SERIES_14, *SERIES_15]),
        ("ASCEND_MODES", [*SERIES_14, *SERIES_15, NEWEST]),
        ("FRAGMENTED", [*SERIES_14, *SERIES_15, NEWEST]),
    ],
)
def test_releases_of_each_behaviour(name: str, releases: list[str]) -> None:
    quirk = getattr(volcano_releases, name)
    assert isinstance(quirk, Quirk)
    assert [each.name for each in KNOWN if quirk.covers(each.version)] == releases


def test_only_one_release_runs_in_the_cluster_tests() -> None:
    assert [each.name for each in KNOWN if each.evidence is ReleaseEvidence.TESTED] == ["1.14.1"]
    assert [each.name for each in KNOWN if each.evidence is ReleaseEvidence.PREEMPTION] == ["1.15.1", NEWEST]


@pytest.mark.parametrize(
    ("subject", "release", "answer"),
    [
        ("the allocation is written", "1.15.1", "on the pod, then a Binding with what the pod carried before"),
        ("the allocation is written", "1.16", "into the Binding alone"),
        (
            "agents of nodes",
            "1.14.1",
            "ours, volcano-vgpu-device-plugin up to 1.12; with its master a node has no cards",
        ),
        ("agents of nodes", "1.14.4", "ours, volcano-vgpu-device-plugin up to 1.12 and master"),
        ("a gang that preempts", "1.14.4", "as every gang that had to wait"),
        ("a gang that preempts", "1.15.1", "is bound with cards of other nodes"),
        ("a gang that preempts", "1.16", "is bound with its own cards"),
        ("slots without known cards", "1.14.1", "the scheduler ends at the first pod that fits there"),
        ("slots without known cards", "1.14.2", "pods are bound there without cards"),
    ],
)
def test_the_first_answer_that_covers_a_release_is_its_answer(subject: str, release: str, answer: str) -> None:
    (row,) = [row for _, rows in SECTIONS for row in rows if row.subject == subject]
    version = known_release(release)
    assert version is not None
    assert row.answer(version) == answer


def test_every_release_has_an_answer_in_every_row() -> None:
    rows = [row for _, rows in SECTIONS for row in rows]
    assert len({row.subject for row in rows}) == len(rows)
    assert all(row.answer(each.version) for row in rows for each in KNOWN)


def test_neighbouring_releases_are_named_as_spans() -> None:
    by_name = {each.name: each for each in KNOWN}
    named = [by_name[name] for name in ("1.14.0", "1.14.1", "1.14.2", "1.15.0", "1.16.0-alpha.1")]
    assert spans(named) == "1.14.0 to 1.14.2, 1.15.0, 1.16.0-alpha.1"
