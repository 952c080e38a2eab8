"""What other packages add by entry points: vendors, and commands of their own."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import metadata
from typing import TYPE_CHECKING, Any, Final

from typer.core import TyperGroup

from hami_plugins.errors import ConfigError

if TYPE_CHECKING:
    from hami_plugins.model.vendor import VendorSpec

VENDORS: Final = "hami_plugins.vendors"
"""Entry points to a ``VendorSpec``, or to several of them."""

COMMANDS: Final = "hami_plugins.commands"
"""Entry points to a ``typer.Typer``; the name is the command's."""


class Commands(TyperGroup):
    """The built-in commands and, after them, those of other packages; each is loaded when it is asked for.

    Typer's contexts and commands are ``Any`` here: their classes moved from click into typer with version 0.20.
    """

    def list_commands(self, ctx: Any) -> list[str]:
        """Every name, built-in ones first."""
        known = list(super().list_commands(ctx))
        return [
            *known,
            *sorted(entry.name for entry in metadata.entry_points(group=COMMANDS) if entry.name not in known),
        ]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of that name, or ``None``; a built-in one cannot be replaced."""
        known = super().get_command(ctx, cmd_name)
        if known is not None:
            return known
        for entry in metadata.entry_points(group=COMMANDS, name=cmd_name):
            from typer.main import get_command

            return get_command(_loaded(entry))
        return None


def has_command(name: str) -> bool:
    """Whether another package brings a command of that name."""
    return bool(metadata.entry_points(group=COMMANDS, name=name))


def vendors() -> Iterator[VendorSpec]:
    """The vendors of other packages, by the names of their entry points."""
    for entry in sorted(metadata.entry_points(group=VENDORS), key=lambda entry: entry.name):
        found = _loaded(entry)
        yield from found if isinstance(found, tuple | list) else (found,)


def _loaded(entry: metadata.EntryPoint) -> Any:
    try:
        return entry.load()
    except Exception as error:
        package = entry.dist.name if entry.dist is not None else "an unknown package"
        raise ConfigError(f"{package}: entry point {entry.group} {entry.name} cannot be loaded: {error}") from error
