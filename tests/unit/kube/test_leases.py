"""Who holds a Lease."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from hami_plugins.errors import WireError
from hami_plugins.kube.leases import LeaseHolder, holder_of, lease_selection

RENEWED = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)


def a_lease(**spec: Any) -> dict[str, Any]:
    held = {"holderIdentity": "me", "renewTime": "2026-01-02T03:04:05.678901Z", "leaseDurationSeconds": 15}
    return {"spec": held | spec}


def test_a_lease_names_its_holder() -> None:
    assert holder_of(a_lease()) == LeaseHolder("me", RENEWED, timedelta(seconds=15))


@pytest.mark.parametrize("lease", [None, {}, {"spec": None}, a_lease(holderIdentity=""), a_lease(holderIdentity=None)])
def test_a_lease_that_nobody_holds_has_no_holder(lease: Any) -> None:
    assert holder_of(lease) is None


@pytest.mark.parametrize(
    "spec", [{"renewTime": "soon"}, {"renewTime": None}, {"leaseDurationSeconds": None}, {"renewTime": "2026-01-02"}]
)
def test_a_lease_whose_times_cannot_be_read_is_an_error(spec: dict[str, Any]) -> None:
    with pytest.raises(WireError, match="Lease"):
        holder_of(a_lease(**spec))


def test_a_holder_expires_when_its_time_is_over() -> None:
    holder = holder_of(a_lease())
    assert holder is not None
    assert not holder.expired(RENEWED + timedelta(seconds=14))
    assert holder.expired(RENEWED + timedelta(seconds=15))


def test_one_lease_is_selected_by_its_name() -> None:
    selection = lease_selection("ns", "leader")
    assert (selection.path, selection.fields) == (
        "/apis/coordination.k8s.io/v1/namespaces/ns/leases",
        "metadata.name=leader",
    )
