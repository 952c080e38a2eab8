"""``defrag``: which pods to move, in words, as a document and as a page."""

from __future__ import annotations

import json
from pathlib import Path

from tests.schema import ADAPTER
from tests.unit.cli.conftest import Type

DUMP = Path(__file__).parents[2] / "golden" / "output" / "defrag-cluster.yaml"


def test_room_for_a_waiting_pod_is_told_with_exit_code_0(type_in: Type) -> None:
    said = type_in("defrag", "--snapshot", DUMP, "--for", "ml/train-0")
    assert said.code == 0
    assert "web/chat-1" in said.out
    assert "after 1 move ml/train-0 fits on gpu-a (NVIDIA L4 #0)" in said.out


def test_the_namespace_completes_the_name(type_in: Type) -> None:
    assert type_in("defrag", "--snapshot", DUMP, "--for", "train-0", "-n", "ml").code == 0


def test_no_moves_are_a_finding(type_in: Type) -> None:
    said = type_in(
        "defrag", "--snapshot", DUMP, "--for", "nvidia.com/gpu=1,nvidia.com/gpumem=24576", "--max-moves", "0"
    )
    assert said.code == 2
    said = type_in("defrag", "--snapshot", DUMP, "--for", "nvidia.com/gpu=2,nvidia.com/gpumem=24576")
    assert said.code == 1
    assert "no room is found for default/request-1" in said.out


def test_a_request_that_fits_needs_no_table(type_in: Type) -> None:
    said = type_in("defrag", "--snapshot", DUMP, "--for", "nvidia.com/gpu=1,nvidia.com/gpumem=100")
    assert said.out.startswith("without any move default/request-1 fits on")


def test_the_page_and_the_document_have_the_same_moves(type_in: Type, tmp_path: Path) -> None:
    page = tmp_path / "moves.html"
    said = type_in("defrag", "--snapshot", DUMP, "-o", "json", "--html", page)
    document = json.loads(said.out)
    ADAPTER.validate_python(document)
    assert [move["pod"] for move in document["moves"]] == ["chat-1", "chat-3"]
    assert all(move["pod"] in page.read_text() for move in document["moves"])
    assert said.err.startswith(f"note: page: {page.as_uri()}")


def test_a_word_that_names_nothing_is_an_error(type_in: Type) -> None:
    said = type_in("defrag", "--snapshot", DUMP, "--for", "ml/other")
    assert said.code == 2
    assert "no pod ml/other waits in this cluster" in said.err


def test_a_page_in_a_folder_that_is_missing_is_an_error_before_anything_is_read(type_in: Type, tmp_path: Path) -> None:
    said = type_in("defrag", "--snapshot", DUMP, "--html", tmp_path / "none" / "page.html")
    assert said.code == 2


def test_a_dump_that_lacks_pods_is_refused_if_asked(type_in: Type, tmp_path: Path) -> None:
    lacking = tmp_path / "nodes.yaml"
    lacking.write_text("\n---".join(part for part in DUMP.read_text().split("\n---") if "kind: Pod\n" not in part))
    assert type_in("defrag", "--snapshot", lacking, "--strict").code == 2
    assert "no pods in this listing" in type_in("defrag", "--snapshot", lacking).out


def test_a_redacted_snapshot_gives_the_same_number_of_moves(type_in: Type, tmp_path: Path) -> None:
    redacted = tmp_path / "redacted.json"
    assert type_in("snapshot", "--snapshot", DUMP, "--redact", "--out", redacted).code == 0
    assert "ReplicaSet" in redacted.read_text()
    plain = json.loads(type_in("defrag", "--snapshot", DUMP, "-o", "json").out)
    secret = json.loads(type_in("defrag", "--snapshot", redacted, "-o", "json").out)
    assert len(secret["moves"]) == len(plain["moves"])
    assert [each["pods"] for each in secret["staying"]] == [each["pods"] for each in plain["staying"]]
