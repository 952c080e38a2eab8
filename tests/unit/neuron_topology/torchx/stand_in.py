"""A stand-in for the parts of TorchX that are called, for where TorchX is not installed.

``tests/torchx`` asks the same of the real one.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import yaml


@dataclass
class Resource:
    """TorchX' own value, as far as it is used."""

    cpu: int
    gpu: int
    memMB: int  # noqa: N815 - TorchX spells it so
    capabilities: dict[str, Any] = field(default_factory=dict)
    devices: dict[str, int] = field(default_factory=dict)


@dataclass
class Request:
    """What TorchX would submit: its text is the job."""

    text: str
    images_to_push: dict[str, tuple[str, str]]

    def __str__(self) -> str:
        return self.text


class Runner:
    """Answers dry runs with a job, with one for their arguments, or with an error."""

    def __init__(self, answer: Any, options: tuple[str, ...]) -> None:
        self.answer = answer
        self.options = options
        self.asked: list[tuple[Any, ...]] = []
        self.images: dict[str, tuple[str, str]] = {}

    def scheduler_run_opts(self, scheduler: str) -> list[tuple[str, str]]:
        return [(name, scheduler) for name in self.options]

    def dryrun_component(
        self, component: str, arguments: list[str], scheduler: str, cfg: Mapping[str, Any], **more: Any
    ) -> Any:
        self.asked.append((component, arguments, scheduler, dict(cfg), *more.items()))
        if isinstance(self.answer, Exception):
            raise self.answer
        job = self.answer(arguments) if callable(self.answer) else self.answer
        spec = {**job.get("spec", {}), "queue": cfg.get("queue")}
        return SimpleNamespace(request=Request(yaml.safe_dump({**job, "spec": spec}), self.images))


def install(monkeypatch: pytest.MonkeyPatch, **modules: Mapping[str, Any]) -> None:
    """Modules of TorchX with these members; dots are spelled ``__``."""
    monkeypatch.setitem(sys.modules, "torchx", ModuleType("torchx"))
    for name, members in modules.items():
        made = ModuleType(f"torchx.{name.replace('__', '.')}")
        vars(made).update(members)
        monkeypatch.setitem(sys.modules, made.__name__, made)


def with_runner(monkeypatch: pytest.MonkeyPatch, answer: Any, *options: str, installed: bool = True) -> Runner:
    """TorchX' runner, which answers so."""
    runner = Runner(answer, ("queue", "namespace", *options))

    @contextmanager
    def get_runner() -> Iterator[Runner]:
        yield runner

    install(monkeypatch, runner={"get_runner": get_runner})
    found = object() if installed else None
    monkeypatch.setattr("neuron_topology.torchx.driver.find_spec", lambda _: found)
    return runner


def decorators(registered: dict[str, Callable[[], Any]]) -> SimpleNamespace:
    """``torchx.plugins.register`` of newer releases."""

    def named_resource(*, name: str) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
        return lambda factory: registered.setdefault(name, factory)

    return SimpleNamespace(named_resource=named_resource)
