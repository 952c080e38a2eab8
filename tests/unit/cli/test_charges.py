"""``usage``: charges from a journal and from a Prometheus that answers from a record."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.schema import published
from tests.unit.cli.conftest import Type

GIB = 1 << 30
TRAIN = {"pod_namespace": "team", "queue": "gold", "owner": "Job/train", "vendor": "NVIDIA"}
DAY_MS = 86_400_000


def line(event: str, elapsed_minutes: int = 0, **more: Any) -> str:
    head = {"journal": "hami-plugins.io/allocation-journal/v1", "event": event, "run": "r"}
    return json.dumps({**head, "elapsedMilliseconds": elapsed_minutes * 60_000, **more}) + "\n"


def held(**more: Any) -> dict[str, Any]:
    pod = {"uid": "u", "namespace": "team", "pod": "train-0", "node": "n", "queue": "gold", "owner": "Job/train"}
    return {**pod, "vendor": "NVIDIA", "devices": "1/2", "memoryMiB": 20_480, **more}


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    """A journal that is written since 30 hours ago; a pod has half a card from the 20th to the 26th hour."""
    began = time.time_ns() // 1_000_000 - 30 * 3_600_000
    lines = [
        line("began", unixMilliseconds=began),
        line("listed"),
        line("held", 20 * 60, **held()),
        line("ended", 26 * 60, uid="u", vendor="NVIDIA"),
        line("alive", 30 * 60),
    ]
    file = tmp_path / "allocator-1.jsonl"
    file.write_text("".join(lines), encoding="utf-8")
    return file


class Recorded(BaseHTTPRequestHandler):
    """Prometheus, with one answer for each metric that a query names."""

    answers: ClassVar[dict[str, tuple[int, Any]]] = {}
    asked: ClassVar[list[tuple[str, str]]] = []

    def do_GET(self) -> None:
        """Answers an instant query."""
        parts = urlsplit(self.path)
        given = parse_qs(parts.query)
        query = given["query"][0]
        type(self).asked.append((parts.path, query))
        status, content = next((told for name, told in self.answers.items() if name in query), (200, []))
        told = vector(content) if isinstance(content, list) else content
        body = told if isinstance(told, bytes) else json.dumps(told).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Nothing is logged."""


def vector(series: Any) -> dict[str, Any]:
    result = [{"metric": labels, "value": [1, str(value)]} for labels, value in series]
    return {"status": "success", "data": {"resultType": "vector", "result": result}}


@pytest.fixture
def recorded() -> Iterator[tuple[str, type[Recorded]]]:
    """The address of such a server, and what it answers."""
    handler = type("Handler", (Recorded,), {"answers": {}, "asked": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}", handler
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_journal_is_charged_for_the_span_that_is_asked_for(type_in: Type, journal: Path) -> None:
    said = type_in("usage", "--since", "5h", "--journal", journal)
    head, row, total = said.out.splitlines()[:3]
    assert head.split() == ["NAMESPACE", "QUEUE", "OWNER", "VENDOR", "DEVICE-HOURS", "GIB-HOURS"]
    cells = row.split()
    assert cells[:4] == ["team", "gold", "Job/train", "NVIDIA"]
    assert float(cells[4]) == pytest.approx(0.5, abs=0.01)
    assert float(cells[5]) == pytest.approx(20, abs=0.1)
    assert total.split()[0] == "total"


def test_a_document_keeps_to_its_schema_and_has_the_sums(type_in: Type, journal: Path) -> None:
    said = type_in("usage", "--since", "1d", "--journal", journal.parent, "-o", "json")
    found = published(said.out)
    assert (found["kind"], found["source"], found["used"], found["idle"]) == ("DeviceCharges", "journal", None, None)
    assert found["deviceHours"] == pytest.approx(3, abs=0.001)
    assert found["gibHours"] == pytest.approx(120, abs=0.01)


def test_csv_has_a_row_for_each_owner_and_units_in_its_names(type_in: Type, journal: Path) -> None:
    said = type_in("usage", "--journal", journal, "-o", "csv")
    assert said.out == "namespace,queue,owner,vendor,device_hours,gib_hours\nteam,gold,Job/train,NVIDIA,3.000,120.000\n"
    bare = type_in("usage", "--journal", journal, "-o", "csv", "--no-headers")
    assert bare.out == "team,gold,Job/train,NVIDIA,3.000,120.000\n"


def test_bad_lines_are_named_the_others_count_and_a_torn_end_is_being_written(type_in: Type, journal: Path) -> None:
    good = journal.read_text(encoding="utf-8")
    first, rest = good.split("\n", 1)
    journal.write_text(f'{first}\nnonsense\n{{"journal": "v0"}}\n{rest}{{"jour', encoding="utf-8")
    said = type_in("usage", "--journal", journal, "-o", "csv")
    assert "Job/train,NVIDIA,3.000,120.000" in said.out
    assert said.code == 1
    assert f"{journal}:2: not JSON" in said.err
    assert f"{journal}:3: journal: expected hami-plugins.io/allocation-journal/v1" in said.err
    assert ":7:" not in said.err


def test_a_gap_is_said_and_makes_the_exit_code_1(type_in: Type, journal: Path) -> None:
    journal.write_text("".join(journal.read_text(encoding="utf-8").splitlines(keepends=True)[:3]), encoding="utf-8")
    said = type_in("usage", "--journal", journal, "-o", "json")
    found = published(said.out)
    assert said.code == 1
    assert found["gaps"][0]["seconds"] == pytest.approx(10 * 3600, abs=5)
    assert found["uncertainDeviceHours"] == pytest.approx(5, abs=0.01)
    table = type_in("usage", "--journal", journal)
    assert "nothing is known from " in table.out
    assert "more may have been held in gaps" in table.out


def test_prometheus_is_asked_for_the_span_and_idle_pods_are_listed(
    type_in: Type, recorded: tuple[str, type[Recorded]]
) -> None:
    url, prometheus = recorded
    pod = {"namespace": "team", "pod": "lazy-0"}
    prometheus.answers.update(
        hami_allocator_allocated_devices=(200, [(TRAIN, 30)]),
        hami_allocator_allocated_memory_bytes=(200, [(TRAIN, 60 * 20 * GIB)]),
        hami_allocator_active=(200, [({}, 60)]),
        bool=(200, [(pod, 60)]),
        volcano_vgpu_container_memory_allocated_bytes=(200, [(pod, 60 * 20 * GIB)]),
        volcano_vgpu_container_memory_used_bytes=(200, [(pod, 30 * GIB)]),
        volcano_vgpu_container_utilization_ratio=(200, [(pod, 0)]),
    )
    said = type_in("usage", "--since", "1h", "--prometheus", f"{url}/", "-o", "json")
    found = published(said.out)
    assert (said.code, found["deviceHours"], found["gibHours"]) == (0, 0.5, 20.0)
    assert found["used"] == [{"namespace": "team", "allocatedGibHours": 20.0, "usedGibHours": 0.5}]
    idle = {
        "namespace": "team",
        "pod": "lazy-0",
        "hours": 1.0,
        "allocatedGib": 20.0,
        "usedRatio": 0.025,
        "busyRatio": 0.0,
    }
    assert found["idle"] == [idle]
    assert {path for path, _ in prometheus.asked} == {"/api/v1/query"}
    assert all("[60m:1m]" in query for _, query in prometheus.asked)
    table = type_in("usage", "--since", "1h", "--prometheus", url)
    assert [line.split() for line in table.out.splitlines() if "lazy-0" in line] == [
        ["team/lazy-0", "1.000", "20.000", "2.5%", "0.0%"]
    ]
    assert "USED GIB-HOURS" in table.out
    strict = type_in("usage", "--since", "1h", "--prometheus", url, "--idle-below", "2", "-o", "json")
    assert published(strict.out)["idle"] == []


def test_minutes_without_an_allocator_make_the_exit_code_1(type_in: Type, recorded: tuple[str, type[Recorded]]) -> None:
    url, prometheus = recorded
    prometheus.answers["hami_allocator_active"] = (200, [({}, 45)])
    said = type_in("usage", "--since", "1h", "--prometheus", url)
    assert said.code == 1
    assert "no allocator answered in 15 of 60 minutes" in said.out


@pytest.mark.parametrize(
    ("status", "content", "words"),
    [
        (422, {"status": "error", "error": "query processing would load too many samples"}, "too many samples"),
        (502, b"<html>", "HTTP 502"),
        (200, b"<html>", "unexpected character"),
    ],
)
def test_a_query_that_fails_is_an_error_with_its_reason(
    type_in: Type, recorded: tuple[str, type[Recorded]], status: int, content: Any, words: str
) -> None:
    url, prometheus = recorded
    prometheus.answers["hami"] = (status, content)
    said = type_in("usage", "--prometheus", url)
    assert said.code == 2
    assert words in said.err


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ((), "give --prometheus URL or --journal FILE, one of the two"),
        (("--prometheus", "http://x", "--journal", "y"), "one of the two"),
        (("--since", "1y", "--journal", "y"), "--since 1y: expected a time span up to 366d"),
        (("--since", "900d", "--journal", "y"), "--since 900d: expected a time span up to 366d"),
        (("--idle-below", "101", "--journal", "y"), "--idle-below 101: expected per cent, 0 to 100"),
        (("--prometheus", "file:///etc/passwd"), "not an address; write http://HOST:9090"),
        (("--prometheus", "http://127.0.0.1:1"), "is Prometheus reachable from here?"),
        (("--journal", "/nowhere/j.jsonl"), "--journal /nowhere/j.jsonl: No such file or directory"),
    ],
)
def test_what_cannot_be_asked_is_an_error_with_a_remedy(type_in: Type, given: tuple[str, ...], words: str) -> None:
    said = type_in("usage", *given)
    assert said.code == 2
    assert words in said.err


def test_a_directory_without_journals_is_an_error(type_in: Type, tmp_path: Path) -> None:
    assert "has no files *.jsonl" in type_in("usage", "--journal", tmp_path).err
