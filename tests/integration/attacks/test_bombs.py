"""Small files that are huge when they are unpacked or written out: one sentence and exit code 2, in bounded memory."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest

from hami_plugins.cli import main
from hami_plugins.cli.kit import inputs
from hami_plugins.config import settings, texts
from hami_plugins.errors import ConfigError, HamiPluginsError, ManifestError
from hami_plugins.sandbox.kubelet.cdi import Cdi, CdiError
from volcano_vgpu.agent import config
from volcano_vgpu.discovery import file as discovery_file

LEVELS = "".join(f"k{at}: &k{at} [{', '.join([f'*k{at - 1}'] * 9)}]\n" for at in range(1, 8))
ALIASES = f"k0: &k0 [{', '.join(['lol'] * 9)}]\n{LEVELS}"
"""Nine aliases on each of seven levels: 43 million words if written out, and 1 KB on disk."""

REFUSAL = "aliases add more than 4,000,000 characters; write the values out"
ENV = {"NODE_NAME": "n"}
MEMBER = gzip.compress(bytes(64 << 20), mtime=0)
"""64 MiB of zeros in 64 KB; a gzip file may hold any number of such members."""


@pytest.fixture
def bomb(tmp_path: Path) -> Path:
    file = tmp_path / "bomb.yaml"
    file.write_text(ALIASES)
    return file


@pytest.mark.parametrize(
    "read",
    [
        pytest.param(lambda text: texts.mapping(text, "f"), id="any mapping"),
        pytest.param(lambda text: settings.parse(text, source="f"), id="settings"),
        pytest.param(lambda text: settings.parse(f"nvidia:\n  {_indented(text)}"), id="HAMi's device configuration"),
        pytest.param(lambda text: config.load(text, ENV), id="settings of the agent"),
        pytest.param(lambda text: config.load("", ENV, device_config=text), id="Volcano's device configuration"),
        pytest.param(lambda text: config.load("", ENV, node_config=text), id="node file"),
        pytest.param(lambda text: discovery_file.parse(text, "f"), id="cards file"),
    ],
)
def test_aliases_that_multiply_are_refused_where_a_file_is_read(read: Callable[[str], object]) -> None:
    with pytest.raises(HamiPluginsError) as refused:
        read(ALIASES)
    assert REFUSAL in str(refused.value)
    assert len(str(refused.value)) < 300


def _indented(text: str) -> str:
    return text.replace("\n", "\n  ")


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(["vendors", "--settings"], id="--settings"),
        pytest.param(["volcano-vgpu", "cards", "--node-name", "n", "--cards-file"], id="--cards-file"),
        pytest.param(["volcano-vgpu", "cards", "--node-name", "n", "--device-config"], id="--device-config"),
        pytest.param(["plan", "--fleet", "mixed", "-f"], id="manifest"),
        pytest.param(["snapshot", "--snapshot"], id="snapshot"),
        pytest.param(["snapshot", "--fleet"], id="fleet"),
    ],
)
def test_commands_refuse_such_a_file_in_one_sentence(
    bomb: Path, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words, str(bomb)]) == 2
    printed = capsys.readouterr().err
    assert REFUSAL in printed
    assert (str(bomb) if words[-1] != "--device-config" else "device configuration") in printed.replace("\n", "")
    assert "defect" not in printed


def test_a_device_specification_that_multiplies_resolves_nothing(bomb: Path) -> None:
    with pytest.raises(CdiError, match="unresolvable"):
        Cdi(bomb.parent).resolve(["a/b=c"])


def test_what_is_wrong_with_a_value_is_told_without_writing_the_value_out() -> None:
    value: object = ["lol"]
    for _ in range(60):  # 2 to the 60th words
        value = {"a": value, "b": [value]}
    assert texts.short(value) == "{'a': " * 16 + "{'a'..."


def test_a_snapshot_that_unpacks_to_more_than_any_cluster_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "zip.gz"
    file.write_bytes(MEMBER * 33)
    assert main(["snapshot", "--snapshot", str(file)]) == 2
    printed = " ".join(capsys.readouterr().err.split())
    assert "unpacks to more than 2,147,483,648 bytes" in printed
    assert "unpack it yourself" in printed


def test_a_manifest_may_unpack_to_less_than_a_snapshot(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "job.yaml.gz"
    file.write_bytes(MEMBER * 5)
    assert main(["plan", "--fleet", "mixed", "-f", str(file)]) == 2
    assert "unpacks to more than 268,435,456 bytes" in " ".join(capsys.readouterr().err.split())


def test_what_is_under_the_limit_is_read_whole(tmp_path: Path) -> None:
    file = tmp_path / "dump.gz"
    file.write_bytes(MEMBER * 3)
    assert len(inputs.read_bytes(str(file), most=192 << 20)) == 192 << 20
    with pytest.raises(ManifestError, match="more than"):
        inputs.read_bytes(str(file), most=(192 << 20) - 1)


def test_two_documents_are_no_settings() -> None:
    with pytest.raises(ConfigError, match="2 documents"):
        texts.mapping("a: 1\n---\nb: 2\n", "f")
