"""Undocumented parts of uvicorn and asyncio that the servers build on. A part that moved is named."""

from __future__ import annotations

import ast
import asyncio
import inspect
import textwrap
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from packaging.requirements import Requirement
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from hami_plugins.web.heads import Guarded
from hami_plugins.web.joined_writes import Joining
from hami_plugins.web.loops import Loop
from hami_plugins.web.server import _Server
from tests.threads import apart

SET_LATER = {"servers"}
"""The attributes of a started server."""


def taken(*classes: type) -> set[str]:
    """The names that classes override, hand on to, or use without making them in ``__init__`` or as a method."""
    used: set[str] = set()
    own: set[str] = set()
    inherited: set[str] = set()
    for each in classes:
        [kind] = ast.parse(textwrap.dedent(inspect.getsource(each))).body
        assert isinstance(kind, ast.ClassDef)
        for method in kind.body:
            if isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef):
                overrides = (ast.get_docstring(method) or "").startswith("See ``")
                (inherited if overrides else own).add(method.name)
                used.update(names(method, "self"))
                inherited.update(names(method, "super()"))
                own.update(made(method) if method.name == "__init__" else ())
    return inherited | (used - own)


def names(method: ast.AST, owner: str) -> Iterator[str]:
    for node in ast.walk(method):
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == owner:
            yield node.attr


def made(method: ast.AST) -> Iterator[str]:
    for node in ast.walk(method):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr


def missing(owner: object, wanted: set[str]) -> list[str]:
    return sorted(name for name in wanted if not hasattr(owner, name))


@pytest.fixture
def config() -> uvicorn.Config:
    return uvicorn.Config(lambda: None, lifespan="off", log_config=None)


def test_the_protocol_of_the_servers_finds_what_it_takes_from_uvicorn(config: uvicorn.Config) -> None:
    config.load()
    wanted = taken(Guarded, Joining)
    assert {"_unset_keepalive_if_required", "on_header", "pipeline", "send_400_response"} <= wanted
    protocols: list[Any] = []

    async def build() -> None:
        protocols.append(HttpToolsProtocol(config=config, server_state=ServerState(), app_state={}))

    apart(lambda: asyncio.run(build()))
    assert missing(protocols[0], wanted) == []


def test_the_servers_find_what_they_take_from_uvicorn(config: uvicorn.Config) -> None:
    config.load()
    wanted = taken(_Server) | {"started", "run"}
    assert {"main_loop", "should_exit", "startup"} <= wanted
    assert missing(uvicorn.Server(config), wanted - SET_LATER) == []
    assert missing(config, {"load", "ssl"}) == []
    assert missing(ServerState(), {"connections", "default_headers"}) == []


@pytest.mark.parametrize(
    ("owner", "wanted"),
    [
        (RequestResponseCycle, {"response_complete"}),
        (H11Protocol, {"client", "transport"}),
        (uvicorn.Server, SET_LATER),
    ],
)
def test_what_uvicorn_sets_while_it_runs_has_its_name(owner: type, wanted: set[str]) -> None:
    source = inspect.getsource(owner)
    assert [name for name in sorted(wanted) if f"self.{name}" not in source] == []


def test_the_loop_finds_what_it_takes_from_asyncio() -> None:
    wanted = taken(Loop)
    assert "_make_ssl_transport" in wanted
    assert missing(asyncio.SelectorEventLoop, wanted) == []


def test_no_release_of_uvicorn_is_installed_that_these_tests_have_not_seen() -> None:
    listed = tomllib.loads(Path("pyproject.toml").read_text())["project"]["dependencies"]
    [found] = [each for each in map(Requirement, listed) if each.name == "uvicorn"]
    assert sorted(each.operator for each in found.specifier) == ["<", ">="]
    major, minor = uvicorn.__version__.split(".")[:2]
    assert f"{major}.{int(minor) + 1}" not in found.specifier
