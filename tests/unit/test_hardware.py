"""The parts of the hardware checks that need no card: parsing, judging, the table, and what is missing."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hardware import __main__ as program
from tests.hardware import machine, rows, worker
from tests.hardware.checks import PodOfOne
from tests.hardware.rows import Card, CheckRow
from tests.shared_regions import Booked, Made, Slot, uuid
from volcano_vgpu.core.monitor.regions import Region
from volcano_vgpu.monitor.files import read

H100 = "0, GPU-4f6d0b6a-0000-0000-0000-000000000001, NVIDIA H100 80GB HBM3, 81559\n"
CARD = Card(0, "GPU-4f6d0b6a-0000-0000-0000-000000000001", "NVIDIA H100 80GB HBM3", 81_559)


def test_cards_are_read_as_nvidia_smi_lists_them() -> None:
    assert rows.cards(f"{H100}\n1, GPU-b, Tesla T4, 15360\n") == (CARD, Card(1, "GPU-b", "Tesla T4", 15_360))


@pytest.mark.parametrize(
    "text", ["0, GPU-a\n", "No devices were found\n", "x, GPU-a, T4, 1\n", "0, GPU-a, T4, [N/A]\n"]
)
def test_what_is_no_card_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"nvidia-smi printed|invalid literal"):
        rows.cards(text)


def test_discovery_has_to_find_the_same_cards() -> None:
    assert rows.discovered([CARD], [CARD]) == CheckRow(
        "NVML discovery", "NVIDIA H100 80GB HBM3 81559 MiB", "the same", passed=True
    )
    other = rows.discovered([CARD._replace(memory=81_558)], [CARD])
    assert (other.measured, other.passed) == ("memory 81558 instead of 81559 on card 0", False)
    none = rows.discovered([], [CARD])
    assert (none.measured, none.passed) == ("0 cards instead of 1", False)


@pytest.mark.parametrize(("measured", "passed"), [(4096, True), (4097, True), (4098, False), (None, False)])
def test_a_number_has_to_be_within_its_margin(measured: int | None, passed: bool) -> None:
    assert rows.equal("x", 4096, measured, within=1).passed is passed


def test_codes_of_cuda_are_said_in_words() -> None:
    assert rows.code("x", 2, 2) == CheckRow("x", "out of memory", "out of memory", passed=True)
    assert rows.code("x", 0, 999) == CheckRow("x", "success", "CUDA error 999", passed=False)


@pytest.mark.parametrize(
    ("limited", "free", "passed"),
    [(30, 100, True), (15, 100, True), (14, 100, False), (60, 100, True), (61, 100, False), (1, 0, False)],
)
def test_a_core_limit_may_be_off_by_half(limited: float, free: float, passed: bool) -> None:
    assert rows.share("x", limited, free, percent=30).passed is passed


def test_a_core_limit_without_effect_never_passes() -> None:
    assert not rows.share("x", 100, 100, percent=60).passed


def test_the_table_has_a_line_for_each_row_and_marks_what_failed() -> None:
    told = rows.table([CheckRow("one", "1 MiB", "1 MiB", passed=True), CheckRow("longer", "2", "3", passed=False)])
    assert told.splitlines() == [
        "CHECK   EXPECTED  MEASURED  VERDICT",
        "one     1 MiB     1 MiB     ok",
        "longer  2         3         FAILED",
    ]


def test_all_that_is_missing_is_said_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    text = tmp_path / "libvgpu.so"
    text.write_text("not built", encoding="utf-8")
    assert program.main(["--check", "--libvgpu", str(text)]) == 2
    said = capsys.readouterr().err
    assert f"missing: --libvgpu {text}: not a shared library" in said
    assert "missing: nvidia-smi is not in PATH: install NVIDIA's driver" in said
    assert program.main([]) == 2
    assert "missing: --libvgpu PATH is not given" in capsys.readouterr().err


def test_a_check_that_breaks_off_is_a_failed_row_and_hides_no_other(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def broken(_library: Path, _root: Path) -> Iterator[CheckRow]:
        yield CheckRow("first", "1", "1", passed=True)
        raise RuntimeError("the worker ended")

    def fine(_library: Path, _root: Path) -> Iterator[CheckRow]:
        yield CheckRow("last", "1", "1", passed=True)

    monkeypatch.setattr(program, "CHECKS", (broken, fine))
    assert program.run(tmp_path / "libvgpu.so", None) == 1
    out = capsys.readouterr().out
    assert "RuntimeError: the worker ended" in out
    assert "2 of 3 as expected" in out
    assert program.run(tmp_path / "libvgpu.so", "fine") == 0


def test_a_slice_has_the_variables_and_the_directory_that_the_agent_gives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "LOCKS", tmp_path / "locks")
    held = machine.Slice(Path("/lib/libvgpu.so"), tmp_path, "pod", memory=2048, cores=30)
    assert held.directory == tmp_path / "pod_main"
    assert held.directory.is_dir()
    assert held.env["CUDA_DEVICE_MEMORY_LIMIT_0"] == "2048m"
    assert held.env["LD_PRELOAD"] == "/lib/libvgpu.so"
    assert Path(held.env["CUDA_DEVICE_MEMORY_SHARED_CACHE"]).parent == held.directory
    assert (held.env["CUDA_DEVICE_SM_LIMIT"], held.env["GPU_CORE_UTILIZATION_POLICY"]) == ("30", "force")


def test_the_agents_part_resizes_a_region_and_refuses_less_than_is_used(tmp_path: Path) -> None:
    """The check of resizes, with a region that no library has open."""
    file = tmp_path / "pod_main" / "any.cache"
    file.parent.mkdir()
    slots = (Slot(booked=[Booked(data=1024 << 20)]),)
    file.write_bytes(Made(uuids=(uuid(1),), limits=(2048 << 20,), slots=slots).data())
    agent = PodOfOne(tmp_path, Card(0, uuid(1), "T4", 15_360), given=2048)

    def limit() -> int:
        content = read(file.parent)
        assert isinstance(content, Region)
        return content.header.memory_limits[0] >> 20

    agent.ask(4096, booked=4096)
    assert limit() == 4096
    agent.ask(512, booked=4096)
    assert limit() == 4096
    assert "1024 MiB are in use now" in agent.annotations["hami-plugins.io/resize-refused"]
    agent.ask(1024, booked=4096)
    assert limit() == 1024


def test_the_worker_imports_nothing_of_ours_so_that_the_library_meets_a_users_program() -> None:
    tree = ast.parse(Path(worker.__file__).read_text(encoding="utf-8"))
    modules = [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    modules += [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert {each.partition(".")[0] for each in modules} <= {*sys.stdlib_module_names}


def test_the_kernel_ends_as_the_driver_wants_it() -> None:
    assert worker.SPIN.endswith(b"\0")
    assert worker.SPIN.count(b"{") == worker.SPIN.count(b"}")
