"""Vendors and commands of other packages."""

from __future__ import annotations

from collections.abc import Callable
from importlib import metadata

import pytest
import typer

from hami_plugins.cli.kit import plugins
from tests import acme
from tests.unit.cli.conftest import Type

other = typer.Typer(help="Another product.")


@other.command()
def hello(name: str) -> None:
    """Say hello."""
    typer.echo(f"hello {name}")


@other.command()
def twice(name: str) -> None:
    """Say hello twice."""
    typer.echo(f"hello {name} and {name}")


unreadable = typer.Typer(help="A product whose commands no one can read.")


@unreadable.command()
def unread(name: str) -> None:
    """A command whose types are not there."""


unread.__annotations__["name"] = "Missing"
nameless = typer.Typer()
nameless.command()(hello)
nameless.command()(twice)


@nameless.callback()
def known_by_its_callback() -> None:
    """Said by the callback."""


Plug = Callable[..., None]


@pytest.fixture
def plug(monkeypatch: pytest.MonkeyPatch) -> Plug:
    """Pretend that packages with these entry points (group, name, value) are installed."""

    def plugged_in(*entries: tuple[str, str, str]) -> None:
        known = metadata.EntryPoints(metadata.EntryPoint(name, value, group) for group, name, value in entries)
        monkeypatch.setattr(metadata, "entry_points", known.select)

    return plugged_in


def test_commands_of_other_packages_stand_after_the_built_in_ones(type_in: Type, plug: Plug) -> None:
    plug((plugins.COMMANDS, "other", f"{__name__}:other"))
    commands = type_in("--help").out.partition("Commands:")[2]
    assert commands.index("completion") < commands.index("other")
    assert "Another product." in commands
    assert type_in("other", "hello", "you").out == "hello you\n"
    assert "Say hello" in type_in("other", "--help").out


def test_help_lists_a_product_without_reading_its_commands(type_in: Type, plug: Plug) -> None:
    plug((plugins.COMMANDS, "unreadable", f"{__name__}:unreadable"))
    assert "A product whose commands no one can read." in type_in("--help").out


def test_a_product_whose_callback_has_the_help_is_listed_with_it(type_in: Type, plug: Plug) -> None:
    plug((plugins.COMMANDS, "nameless", f"{__name__}:nameless"))
    assert "Said by the callback." in type_in("--help").out


def test_a_mistyped_command_of_another_package_is_answered_with_its_name(type_in: Type, plug: Plug) -> None:
    plug((plugins.COMMANDS, "other", f"{__name__}:other"))
    assert "Did you mean 'other'?" in type_in("othre").err
    assert "Did you mean" not in type_in("unheard-of").err


@pytest.mark.parametrize("group", [(), ("koordinator",), ("neuron",), ("neuron", "hypernodes"), ("volcano-vgpu",)])
def test_the_help_lists_commands_with_whole_sentences(type_in: Type, group: tuple[str, ...]) -> None:
    said = type_in(*group, "--help").out
    assert not [line for line in said.partition("Commands:")[2].splitlines() if line.endswith("...")]
    assert ("--install-completion" in said) == (not group)


def test_a_built_in_command_cannot_be_replaced(type_in: Type, plug: Plug) -> None:
    plug((plugins.COMMANDS, "vendors", f"{__name__}:other"))
    assert type_in("--help").out.count("\n  vendors ") == 1
    assert "NVIDIA" in type_in("vendors").out


def test_vendors_of_other_packages_are_vendors_like_any(type_in: Type, plug: Plug) -> None:
    plug((plugins.VENDORS, "acme", "tests.acme:SPEC"))
    rows = type_in("vendors", "--no-headers").out.splitlines()
    assert rows[-1].split()[0] == acme.SPEC.name


@pytest.mark.parametrize(("group", "words"), [(plugins.VENDORS, ["vendors"]), (plugins.COMMANDS, ["broken", "x"])])
def test_what_cannot_be_loaded_is_named(type_in: Type, plug: Plug, group: str, words: list[str]) -> None:
    plug((group, "broken", "tests.no_such_module:SPEC"))
    said = type_in(*words)
    assert said.code == 2
    assert "broken" in said.err
    assert "no_such_module" in said.err
