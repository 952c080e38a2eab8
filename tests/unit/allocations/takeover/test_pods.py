"""What the check of a takeover finds about pods between two schedulers."""

from __future__ import annotations

from hami_plugins.allocations.takeover.values import listed
from tests.unit.allocations.takeover.situations import MARK, SECONDS, a_node, a_pod, assigned, bound, found, only, told


def test_pods_that_wait_for_hami_are_told_together() -> None:
    each = only(pods=[a_pod(f"p{at}") for at in range(7)])
    assert (each.severity, each.object) == ("info", "pods")
    assert "7 pods without the allocator's mark" in each.what
    assert "team/p4 and 2 more" in each.what


def test_marked_pods_plain_pods_and_finished_pods_are_none_of_them() -> None:
    plain = a_pod("plain")
    del plain["spec"]["containers"][0]["resources"]
    done = a_pod("done")
    done["status"] = {"phase": "Succeeded"}
    assert found(pods=[a_pod("marked", **{MARK: "extender"}), plain, done]) == ()


def test_a_pod_that_no_webhook_has_changed_is_a_warning() -> None:
    raw = a_pod()
    raw["spec"]["schedulerName"] = "default-scheduler"
    each = only(pods=[raw])
    assert (each.severity, each.object) == ("warning", "pod team/p")
    assert "waits for default-scheduler: no webhook has changed it" in each.what


def test_what_hami_has_just_assigned_is_under_way() -> None:
    each = only(pods=[assigned(seconds=90)])
    assert (each.severity, each.object) == ("info", "pod team/p")
    assert "devices of node n1 90 s ago, and has not bound it yet" in each.what


def test_what_hami_has_assigned_long_ago_was_left_behind() -> None:
    each = only(pods=[assigned(seconds=91)])
    assert each.severity == "warning"
    assert "91 s ago, and counts them until it is gone" in each.what


def test_an_unreadable_time_is_long_ago() -> None:
    raw = assigned(seconds=0)
    raw["metadata"]["annotations"]["hami.io/vgpu-time"] = "soon"
    assert "at an unreadable time" in only(pods=[raw]).what


def test_a_running_pod_with_its_devices_is_no_finding() -> None:
    assert found(nodes=[a_node()], pods=[bound(**{"hami.io/bind-phase": "success"})]) == ()


def test_a_pod_whose_plugin_does_not_answer_is_a_warning() -> None:
    since = {"hami.io/bind-phase": "allocating", "hami.io/bind-time": str(SECONDS - 301)}
    each = only(nodes=[a_node()], pods=[bound(phase="Pending", **since)])
    assert (each.severity, each.object) == ("warning", "pod team/p")
    assert "bound to node n1 for 301 s" in each.what
    assert found(nodes=[a_node()], pods=[bound(phase="Running", **since)]) == ()
    since["hami.io/bind-time"] = str(SECONDS - 300)
    assert found(nodes=[a_node()], pods=[bound(phase="Pending", **since)]) == ()
    del since["hami.io/bind-time"]
    assert found(nodes=[a_node()], pods=[bound(phase="Pending", **since)]) == ()


def test_a_pod_that_its_plugin_has_refused_is_a_warning() -> None:
    each = only(nodes=[a_node()], pods=[bound(phase="Pending", **{"hami.io/bind-phase": "failed"})])
    assert "the device plugin of node n1 has refused it" in each.what


def test_what_audit_finds_is_an_error() -> None:
    raw = bound(**{"hami.io/vgpu-devices-allocated": "GPU-n1,NVIDIA,much,0:;"})
    each = only(nodes=[a_node()], pods=[raw])
    assert (each.severity, each.object) == ("error", "node n1")
    assert "cannot be read: hami.io/vgpu-devices-allocated" in each.what


def test_a_bound_pod_that_cannot_be_read_is_told_and_a_waiting_one_is_left_alone() -> None:
    raw = bound()
    raw["spec"]["containers"][0]["resources"]["limits"] = {"nvidia.com/gpu": []}
    assert told(nodes=[a_node(), {"metadata": {"name": 5}}], pods=[raw])[1:] == [("error", "node n1")]
    waiting = a_pod()
    waiting["spec"]["containers"][0]["resources"]["limits"] = {"nvidia.com/gpu": []}
    assert found(pods=[waiting]) == ()


def test_few_names_are_listed_as_they_are() -> None:
    assert (listed(["a", "b"]), listed(["a", "b", "c"], 2)) == ("a, b", "a, b and 1 more")
