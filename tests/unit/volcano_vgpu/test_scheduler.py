"""What the versions of Volcano's scheduler need."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from hami_plugins.vendors.volcano_releases import Version, version_of
from volcano_vgpu.agent import scheduler
from volcano_vgpu.agent.scheduler import Leader, Needs, WriteReason
from volcano_vgpu.core.settings import Choice, Scheduler


@pytest.mark.parametrize(
    ("version", "needed"),
    [
        (None, True),
        ("1.8.2", True),
        ("1.13.9", True),
        ("1.14.0", True),
        ("1.14.1", True),
        ("1.14.2", True),
        ("1.14.3", False),
        ("1.14.4", False),
        ("1.15.0", True),
        ("1.15.1", False),
        ("1.16.0-alpha.1", False),
        ("2.0.0", False),
    ],
)
def test_which_versions_need_a_handshake(version: str | None, needed: bool) -> None:
    assert scheduler.needs_handshake(None if version is None else version_of(version)) is needed


@pytest.mark.parametrize(
    ("version", "after_a_bind"),
    [
        (None, True),
        ("1.13.0", True),
        ("1.14.1", True),
        ("1.14.4", True),
        ("1.15.0", False),
        ("1.16.0", False),
        ("1.17.2", False),
    ],
)
def test_which_versions_need_a_touch(version: str | None, after_a_bind: bool) -> None:
    found = None if version is None else version_of(version)
    assert scheduler.needs_touch(found, WriteReason.BIND) is after_a_bind
    assert scheduler.needs_touch(found, WriteReason.RESTART)
    assert scheduler.needs_touch(found, WriteReason.UNALLOCATED)


@pytest.mark.parametrize(
    ("choice", "handshake", "touch"), [("auto", False, False), ("always", True, True), ("never", False, False)]
)
def test_a_setting_wins_over_what_the_version_needs(choice: Choice, handshake: bool, touch: bool) -> None:
    needs = Needs(Version(1, 16, 0), Scheduler(handshake=choice, touch=choice))
    assert (needs.handshake, needs.touch(WriteReason.BIND)) == (handshake, touch)


def test_a_scheduler_of_which_nothing_is_known_needs_everything() -> None:
    assert Needs().handshake
    assert all(Needs().touch(why) for why in WriteReason)


@pytest.mark.parametrize(
    ("spec", "leader"),
    [
        (
            {"holderIdentity": "vc-0_1", "acquireTime": "2026-11-21T12:00:00.000000Z"},
            Leader("vc-0_1", datetime(2026, 11, 21, 12, tzinfo=UTC)),
        ),
        ({"holderIdentity": "vc-0_1", "acquireTime": "2026-11-21T12:00:00"}, Leader("vc-0_1", None)),
        ({"holderIdentity": "vc-0_1"}, Leader("vc-0_1", None)),
        ({"holderIdentity": ""}, None),
        ({"holderIdentity": 3}, None),
        (None, None),
    ],
)
def test_who_leads_is_read_off_the_lease(spec: Any, leader: Leader | None) -> None:
    assert scheduler.leader_of({"spec": spec}) == leader


def test_a_version_is_printed_as_releases_are_called() -> None:
    assert str(Version(1, 14, 1)) == "1.14.1"
