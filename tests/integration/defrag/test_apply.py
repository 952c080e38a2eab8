"""``defrag --apply`` on the embedded API server: pods move one after another, and the first surprise ends it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hami_plugins.allocator import evictions
from hami_plugins.cli import defrag_steps
from hami_plugins.sandbox.apiserver import Fault, Refuse
from tests.integration.defrag.cluster import Placement, Raw, Site, site
from tests.waiting import wait_for

ROOM = ("--for", "nvidia.com/gpu=1,nvidia.com/gpumem=24000")
Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks at pods more often."""
    monkeypatch.setattr(defrag_steps, "PAUSE", 0.02)


def two_moves(folder: Path) -> Any:
    """Two pods leave node ``a``, for ``b`` that has room for both and is fuller."""
    return site(folder, a={"one": 5_000, "two": 4_000}, b={"fixed-b": 14_000}, c={"fixed-c": 21_000})


def test_pods_move_one_after_another_and_the_request_fits(tmp_path: Path, capsys: Capture) -> None:
    with two_moves(tmp_path) as place:
        assert place.defrag(*ROOM, "--apply") == 0
        assert sorted(place.pods().values()) == ["b", "b", "b", "c"]
        assert place.marks() == [(0, "begun"), (0, "landed"), (1, "begun"), (1, "landed")]
        said = capsys.readouterr()
        assert "1  ml/one: evicted from a, runs as one-1n on b" in said.out
        assert "2  ml/two: evicted from a, runs as two-2n on b" in said.out
        assert "--resume" not in said.err
        assert place.defrag(*ROOM) == 0
        assert "without any move default/request-1 fits on a" in capsys.readouterr().out


def test_a_plan_alone_writes_nothing(tmp_path: Path, capsys: Capture) -> None:
    with two_moves(tmp_path) as place:
        writes = place.server.requests.writes()
        assert place.defrag(*ROOM) == 0
        assert place.server.requests.writes() == writes
        assert not place.journal.exists()
        assert "2 moves; nothing is written without --apply" in capsys.readouterr().out


def test_where_no_move_is_needed_nothing_is_written(tmp_path: Path) -> None:
    with two_moves(tmp_path) as place:
        assert place.defrag("--for", "nvidia.com/gpu=1,nvidia.com/gpumem=100", "--apply") == 0
        assert not place.journal.exists()


@pytest.mark.parametrize("dry_runs", [0, 1], ids=["the dry run", "the eviction"])
def test_an_eviction_that_a_budget_refuses_stops_before_anything_is_lost(
    tmp_path: Path, capsys: Capture, dry_runs: int
) -> None:
    with two_moves(tmp_path) as place:
        seen = iter(range(100))
        refuse = Refuse(429, message="Cannot evict pod as it would violate the pod's disruption budget.")
        place.server.faults.add(
            Fault(action=refuse, subresource="eviction", times=None, where=lambda _: next(seen) >= dry_runs)
        )
        before = place.pods()
        assert place.defrag(*ROOM, "--apply") == 1
        assert place.pods() == before
        said = capsys.readouterr()
        assert "ml/one: the eviction is refused" in said.out
        assert "disruption budget" in said.out
        assert f"{place.journal} records the moves; --resume carries out those that are left" in said.err
        place.server.faults.clear()
        assert place.defrag("--resume") == 0
        assert sorted(place.pods().values()) == ["b", "b", "b", "c"]


def test_a_pod_that_lands_elsewhere_ends_it(tmp_path: Path, capsys: Capture) -> None:
    with two_moves(tmp_path) as place:
        place.place = lambda _: Placement("a", "GPU-a")
        assert place.defrag(*ROOM, "--apply") == 1
        assert place.pods()["two"] == "a"
        assert place.marks() == [(0, "begun"), (0, "ended")]
        assert "ml/one: one-1n landed on a instead of b" in capsys.readouterr().out
        assert place.defrag("--resume") == 2
        assert "ml/one did not land as planned" in capsys.readouterr().err


def test_a_pod_that_gets_another_card_ends_it(tmp_path: Path, capsys: Capture) -> None:
    with two_moves(tmp_path) as place:
        place.place = lambda _: Placement("b", "GPU-other")
        assert place.defrag(*ROOM, "--apply") == 1
        assert "one-1n got GPU-other on b instead of GPU-b" in capsys.readouterr().out


def test_a_controller_that_makes_several_pods_ends_it(tmp_path: Path, capsys: Capture) -> None:
    with two_moves(tmp_path) as place:
        place.copies, place.place = 2, lambda _: None
        assert place.defrag(*ROOM, "--apply") == 1
        assert "its controller created several pods: one-1n, one-2n" in capsys.readouterr().out


def test_a_pod_that_fails_at_its_new_place_ends_it(tmp_path: Path, capsys: Capture) -> None:
    with two_moves(tmp_path) as place:
        bind = place.bind

        def fails(raw: Raw, placement: Placement) -> None:
            bind(raw, placement)
            raw["status"] = {"phase": "Failed"}
            place.server.put(raw)

        place.bind = fails
        assert place.defrag(*ROOM, "--apply") == 1
        assert "one-1n has ended (Failed)" in capsys.readouterr().out


def test_a_pod_that_takes_too_long_is_waited_for_again(tmp_path: Path, capsys: Capture) -> None:
    with two_moves(tmp_path) as place:
        place.place = lambda _: None
        assert place.defrag(*ROOM, "--apply", "--wait", "4") == 1
        assert "one-1n has no node after 4 s; --resume goes on waiting" in capsys.readouterr().out
        place.place = place.decided
        assert place.defrag("--resume") == 0
        assert place.marks() == [(0, "begun"), (0, "landed"), (1, "begun"), (1, "landed")]


def test_a_pod_is_only_there_again_when_it_is_ready(tmp_path: Path, capsys: Capture) -> None:
    with two_moves(tmp_path) as place:
        place.ready = False
        assert place.defrag(*ROOM, "--apply", "--wait", "4") == 1
        assert "one-1n is not ready after 4 s" in capsys.readouterr().out


def test_the_cluster_is_looked_at_again_before_each_eviction(tmp_path: Path, capsys: Capture) -> None:
    with two_moves(tmp_path) as place:
        decided = place.decided

        def with_a_rival(raw: Raw) -> Placement | None:
            found: Placement | None = decided(raw)
            if found is not None and not any(name == "rival" for name in place.pods()):
                owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rival", "uid": "r", "controller": True}
                limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "5000"}
                place.put("rival", [{"name": "main", "image": "i", "resources": {"limits": limits}}], [owner])
                place.bind(place.server.get("pods", "rival", "ml"), Placement("b", "GPU-b"))
            return found

        place.place = with_a_rival
        assert place.defrag(*ROOM, "--apply") == 1
        assert place.pods()["two"] == "a"
        assert "ml/two: not evicted: it would" in capsys.readouterr().out
        assert place.marks() == [(0, "begun"), (0, "landed")]


class _InterruptedError(BaseException):
    """A process that ends at any moment."""


def interrupted_at(place: Site, monkeypatch: pytest.MonkeyPatch, word: str) -> None:
    """The command ends just before or after an eviction."""
    evict = evictions.evict

    def ends(*args: Any, dry: bool = False) -> Any:
        found = None if word == "before" and not dry else evict(*args, dry=dry)
        if not dry:
            raise _InterruptedError
        return found

    monkeypatch.setattr("hami_plugins.cli.defrag_steps.evict", ends)
    with pytest.raises(_InterruptedError):
        place.defrag(*ROOM, "--apply")
    monkeypatch.setattr("hami_plugins.cli.defrag_steps.evict", evict)


@pytest.mark.parametrize("word", ["before", "after"])
def test_after_an_interruption_the_rest_is_carried_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, word: str, capsys: Capture
) -> None:
    with two_moves(tmp_path) as place:
        interrupted_at(place, monkeypatch, word)
        assert place.marks() == [(0, "begun")]
        assert "--resume carries out those that are left" in capsys.readouterr().err
        assert place.defrag("--resume") == 0
        assert sorted(place.pods().values()) == ["b", "b", "b", "c"]
        assert place.marks()[-1] == (1, "landed")


def test_a_torn_line_of_the_journal_says_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with two_moves(tmp_path) as place:
        interrupted_at(place, monkeypatch, "after")
        with place.journal.open("a") as file:
            file.write('{"step": 0, "mark": "lan')
        assert place.defrag("--resume") == 0


def test_a_pod_that_has_gone_since_the_plan_is_not_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    with two_moves(tmp_path) as place:
        interrupted_at(place, monkeypatch, "after")
        place.server.delete("pods", "two", "ml", grace=0)
        assert place.defrag("--resume") == 1
        assert "ml/two: the pod is gone, so nothing is evicted; plan again" in capsys.readouterr().out


def test_the_journal_of_another_cluster_is_refused(tmp_path: Path, capsys: Capture) -> None:
    with two_moves(tmp_path) as place:
        assert place.defrag(*ROOM, "--apply") == 0
        lines = place.journal.read_text().splitlines()
        head = json.loads(lines[0])
        place.journal.write_text("\n".join([json.dumps(head | {"cluster": "other"}), *lines[1:], ""]))
        assert place.defrag("--resume") == 2
        assert "these moves are for another cluster" in capsys.readouterr().err


@pytest.mark.parametrize(
    "text", ["", "{}\n", "nonsense\n", '{"kind": "Defragmentation"}\n{"step": 3, "mark": "begun"}\n']
)
def test_a_file_that_is_no_journal_stays_as_it_is(tmp_path: Path, text: str, capsys: Capture) -> None:
    with two_moves(tmp_path) as place:
        place.journal.write_text(text)
        assert place.defrag("--resume") == 2
        assert "not the journal of a defragmentation" in capsys.readouterr().err
        assert place.journal.read_text() == text


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--apply", "--fleet", "t4x1"), "--apply cannot be combined with --snapshot or --fleet"),
        (("--resume", "--fleet", "t4x1"), "--resume cannot be combined with --snapshot or --fleet"),
        (("--apply", "--alone"), "--apply cannot be combined with --alone"),
        (("--apply", "--resume"), "leave out --apply"),
        (("--apply", "-o", "json"), "--apply prints lines as moves end"),
        (("--resume",), "--resume: no journal"),
    ],
)
def test_options_that_do_not_go_together_are_refused_first(
    tmp_path: Path, words: tuple[str, ...], why: str, capsys: Capture
) -> None:
    with two_moves(tmp_path) as place:
        assert place.defrag(*words) == 2
        assert why in capsys.readouterr().err
        assert place.defrag(*ROOM, "--apply") == 0
        assert place.defrag(*ROOM, "--apply") == 2
        assert "this journal already exists; --resume goes on" in capsys.readouterr().err


def test_an_api_server_that_fails_leaves_a_journal_to_go_on_with(tmp_path: Path, capsys: Capture) -> None:
    with two_moves(tmp_path) as place:
        evicted = []

        def after_the_eviction(request: Any) -> bool:
            evicted.extend([request] if request.subresource == "eviction" else [])
            return len(evicted) > 1 and request.subresource != "eviction" and request.verb == "list"

        place.server.faults.add(Fault(action=Refuse(500), times=None, where=after_the_eviction))
        assert place.defrag(*ROOM, "--apply") == 2
        said = capsys.readouterr().err
        assert "--resume carries out those that are left" in said
        assert "500" in said
        place.server.faults.clear()
        assert place.defrag("--resume") == 0
        assert place.marks()[-1] == (1, "landed")


def test_a_pod_that_loses_its_controller_before_the_journal_begins_is_not_evicted(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    with two_moves(tmp_path) as place:
        monkeypatch.setattr(defrag_steps, "owner_of", lambda _: "")
        assert place.defrag(*ROOM, "--apply") == 2
        assert "pod ml/one has no controller any more; plan again" in capsys.readouterr().err
        assert not place.journal.exists()


def test_a_pod_that_is_being_deleted_already_is_not_evicted(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    with two_moves(tmp_path) as place:
        interrupted_at(place, monkeypatch, "after")
        wait_for(lambda: place.pods().get("one-1n") == "b")
        place.step = lambda: None
        place.server.delete("pods", "two", "ml")
        assert place.defrag("--resume") == 1
        assert "ml/two: the pod is being deleted already; plan again" in capsys.readouterr().out
