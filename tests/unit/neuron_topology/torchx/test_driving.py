"""TorchX asked what it would submit."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from hami_plugins.errors import ConfigError
from neuron_topology.torchx import driver
from tests.unit.neuron_topology.torchx import stand_in

JOB = {"kind": "Job", "metadata": {"name": "j"}, "spec": {"queue": "q"}}


def test_torchx_is_asked_for_a_dry_run(monkeypatch: pytest.MonkeyPatch) -> None:
    runner = stand_in.with_runner(monkeypatch, JOB)
    assert driver.requested("dist.ddp", ("-j", "1x2"), {"queue": "q"}) == (JOB, {})
    assert runner.asked == [("dist.ddp", ["-j", "1x2"], "kubernetes", {"queue": "q"})]


def test_a_torchx_that_would_ask_the_cluster_is_told_not_to(monkeypatch: pytest.MonkeyPatch) -> None:
    runner = stand_in.with_runner(monkeypatch, JOB, "validate_spec")
    driver.requested("dist.ddp", (), {})
    assert runner.asked[0][-1] == {"validate_spec": False}


def test_what_torchx_refuses_is_told_in_its_words(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in.with_runner(monkeypatch, KeyError("No named resource found for `x`"))
    with pytest.raises(ConfigError, match=r"TorchX: .*No named resource found"):
        driver.requested("dist.ddp", (), {})


def test_what_our_component_refuses_is_told_in_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in.with_runner(monkeypatch, ConfigError("no tier"))
    with pytest.raises(ConfigError, match=r"^no tier$"):
        driver.requested("dist.ddp", (), {})


def test_an_option_that_torchx_does_not_know_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in.with_runner(monkeypatch, JOB)
    with pytest.raises(ConfigError, match="TorchX has no option queues; there are namespace, queue"):
        driver.requested("dist.ddp", (), {"queues": "q"})


def test_without_torchx_the_way_to_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in.with_runner(monkeypatch, JOB, installed=False)
    with pytest.raises(ConfigError, match=r"pip install '\.\[torchx\]'"):
        driver.requested("dist.ddp", (), {})


def test_a_workspace_makes_an_image_that_is_pushed_as_torchx_does(monkeypatch: pytest.MonkeyPatch) -> None:
    runner = stand_in.with_runner(monkeypatch, JOB)
    runner.images = {"sha256:1": ("repo", "1")}
    found = driver.requested("dist.ddp", (), {"queue": "q"}, workspace="file://code")
    assert runner.asked[0][-1] == ("workspace", "file://code")
    assert found.images == {"sha256:1": ("repo", "1")}
    pushed: list[Any] = []
    scheduler = SimpleNamespace(push_images=pushed.append)
    monkeypatch.setitem(
        sys.modules,
        "torchx.schedulers",
        SimpleNamespace(get_scheduler_factories=lambda: {"kubernetes": lambda _: scheduler}),
    )
    driver.push({})
    assert not pushed
    driver.push(found.images)
    assert pushed == [{"sha256:1": ("repo", "1")}]


def test_an_image_that_cannot_be_pushed_is_told_in_torchxs_words(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in.with_runner(monkeypatch, JOB)
    monkeypatch.setitem(sys.modules, "torchx.schedulers", SimpleNamespace(get_scheduler_factories=dict))
    with pytest.raises(ConfigError, match="TorchX: 'kubernetes'"):
        driver.push({"sha256:1": ("repo", "1")})
