"""``neuron instances``: what is known of instance types, at a terminal and as a document."""

from __future__ import annotations

import pytest

from hami_plugins.errors import ConfigError
from neuron_topology.core.hardware.instances import INSTANCE_TYPES
from tests.schema import published
from tests.unit.neuron_topology.typing_in import type_in


def lines_of(text: str) -> list[str]:
    """The lines, with one space where the columns are apart."""
    return [" ".join(line.split()) for line in text.splitlines()]


def test_every_type_has_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    lines = lines_of(type_in(capsys, "instances", "--no-headers").out)
    assert [line.partition(" ")[0] for line in lines] == list(INSTANCE_TYPES)
    assert "trn2u.48xlarge 16 4x4 torus 64 1536 GiB 192 2048 GiB 16 2 4" in lines


def test_one_type_is_told_with_its_places_its_sets_and_their_chances(capsys: pytest.CaptureFixture[str]) -> None:
    lines = lines_of(type_in(capsys, "instances", "trn1.32xlarge").out)
    assert "network cards 8" in lines
    assert "PCIe groups 0 1 12 13; 4 5 8 9; 2 3 14 15; 6 7 10 11" in lines
    assert "aws 16 of 1, 4 of 4, 2 of 8, 1 of 16" in lines
    assert "IN USE AWS 4 AWS 8 LINKED 2 LINKED 4 LINKED 8" in lines
    assert "4 0.859 0.077 1.000 1.000 0.295" in lines


def test_a_type_of_one_device_has_no_chances(capsys: pytest.CaptureFixture[str]) -> None:
    said = type_in(capsys, "instances", "trn1.2xlarge").out
    assert "1 of 1" in said
    assert "IN USE" not in said


def test_programs_get_the_same_with_exact_figures(capsys: pytest.CaptureFixture[str]) -> None:
    every = published(type_in(capsys, "instances", "-o", "json").out)
    assert len(every["instanceTypes"]) == len(INSTANCE_TYPES)
    assert every["instanceTypes"][0]["sets"] is None
    (one,) = published(type_in(capsys, "instances", "inf2.48xlarge", "-o", "json").out)["instanceTypes"]
    assert (one["links"], one["memoryPerDeviceMiB"], one["numaOfDevice"][:2]) == ("ring", 32_768, [2, 3])
    assert one["sets"]["linked"]["4"]["sets"] == 12
    assert one["sets"]["aws"]["4"]["sets"] == 9
    assert one["sets"]["aws"]["4"]["chanceByBusy"][0] == 1.0


def test_a_type_that_is_not_known_is_told_with_those_that_are(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ConfigError, match=r"no instance type is called p5\.48xlarge; known are inf1\.xlarge, "):
        type_in(capsys, "instances", "p5.48xlarge")
