"""The options of a command as one value."""

from typing import Annotated

import typer
from typer.testing import CliRunner

from hami_plugins.cli.kit.option_group import OptionGroup, taking


class Inner(OptionGroup):
    """A part of the options."""

    depth: Annotated[int, typer.Option("--depth", help="How deep.")] = 2
    names: Annotated[list[str] | None, typer.Option("--name", help="A name.")] = None


class Outer(OptionGroup):
    """All of them."""

    first: Annotated[bool, typer.Option("--first", help="The first.")] = False
    inner: Inner
    last: Annotated[str, typer.Option("--last", help="The last.")]


app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
@taking(Outer)
def show(order: Outer) -> None:
    """Show them."""
    typer.echo((order.first, order.inner.depth, order.inner.names, order.last))


def test_a_command_gets_its_group_and_the_groups_inside_it() -> None:
    assert CliRunner().invoke(app, ["--last", "z"]).output == "(False, 2, None, 'z')\n"
    words = ["--first", "--name", "a", "--name", "b", "--depth", "3", "--last", "z"]
    assert CliRunner().invoke(app, words).output == "(True, 3, ['a', 'b'], 'z')\n"


def test_the_help_lists_the_fields_in_their_order() -> None:
    printed = CliRunner().invoke(app, ["--help"]).output
    assert "Show them." in printed
    places = [printed.index(option) for option in ("--first", "--depth", "--name", "--last")]
    assert places == sorted(places)


def test_an_option_without_default_has_to_be_given() -> None:
    found = CliRunner().invoke(app, [])
    assert (found.exit_code, "--last" in found.output) == (2, True)
