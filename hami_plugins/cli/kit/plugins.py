"""What other packages add by entry points: vendors, and commands of their own."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final

import typer
from typer.core import TyperGroup

from hami_plugins.errors import ConfigError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint, EntryPoints

    from hami_plugins.allocator.extension import AllocatorExtensionEntry
    from hami_plugins.config.reference import SettingsProgram
    from hami_plugins.model.vendor import VendorSpec

VENDORS: Final = "hami_plugins.vendors"
"""Entry points to a ``VendorSpec``, or to several of them."""

COMMANDS: Final = "hami_plugins.commands"
"""Entry points to a ``typer.Typer``; the name is the command's."""


SETTINGS: Final = "hami_plugins.settings"
"""Entry points to a ``SettingsProgram``, whose settings are listed."""

ALLOCATORS: Final = "hami_plugins.allocators"
"""Entry points to an ``AllocatorExtensionEntry``."""

CONTEXT: Final[dict[str, Any]] = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
"""Of every group: how help is asked for, and how wide it is."""

WHOLE: Final = 1_000
"""Characters of a command's first sentence that are listed; it is wrapped, and not cut."""


class CommandGroup(TyperGroup):
    """Commands listed with their whole first sentence; a mistyped command lists similar names.

    Typer's contexts and commands are ``Any`` here: their classes moved from click into typer with version 0.20.
    """

    def get_params(self, ctx: Any) -> Any:
        """The group's own options, all of them flags.

        Those that typer adds (help, completion) are ``None`` unless given, to convert which typer loads pydantic.
        """
        found = super().get_params(ctx)
        for each in found:
            each.default = each.default or False
        return found

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """The list of commands in the help."""
        found = [(name, self.listed(ctx, name)) for name in self.list_commands(ctx)]
        rows = [(name, command.get_short_help_str(WHOLE)) for name, command in found if command and not command.hidden]
        if rows:
            with formatter.section("Commands"):
                formatter.write_dl(rows)

    def listed(self, ctx: Any, name: str) -> Any:
        """The command as the list needs it: with its help."""
        return self.get_command(ctx, name)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that the arguments begin with."""
        name = args[0]
        if not ctx.resilient_parsing and not name.startswith("-") and self.get_command(ctx, name) is None:
            near = " or ".join(map(repr, get_close_matches(name, self.list_commands(ctx))))
            ctx.fail(f"No such command {name!r}.{f' Did you mean {near}?' if near else ''}")
        return super().resolve_command(ctx, args)


def command_group(name: str, summary: str) -> typer.Typer:
    """A group of commands of another package."""
    return typer.Typer(
        name=name,
        cls=CommandGroup,
        help=summary,
        no_args_is_help=True,
        rich_markup_mode=None,
        add_completion=False,
        context_settings=CONTEXT,
    )


class Commands(CommandGroup):
    """The built-in commands and, after them, those of other packages; each is loaded when it is asked for."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Every name, built-in ones first."""
        known = list(super().list_commands(ctx))
        return [
            *known,
            *sorted(entry.name for entry in _entries(COMMANDS) if entry.name not in known),
        ]

    def listed(self, ctx: Any, name: str) -> Any:
        """A group of another package without its commands, for all of which typer would read the types."""
        if super().get_command(ctx, name) is None:
            for entry in _entries(COMMANDS).select(name=name):
                text = _loaded(entry).info.help
                if isinstance(text, str):
                    return CommandGroup(name=name, help=text)
        return self.get_command(ctx, name)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of that name, or ``None``; a built-in one cannot be replaced."""
        known = super().get_command(ctx, cmd_name)
        if known is not None:
            return known
        for entry in _entries(COMMANDS).select(name=cmd_name):
            from typer.main import get_command

            return get_command(_loaded(entry))
        return None


def has_command(name: str) -> bool:
    """Whether another package brings a command of that name."""
    return bool(_entries(COMMANDS).select(name=name))


def vendors() -> Iterator[VendorSpec]:
    """The vendors of other packages, by the names of their entry points."""
    for entry in sorted(_entries(VENDORS), key=lambda entry: entry.name):
        found = _loaded(entry)
        yield from found if isinstance(found, tuple | list) else (found,)


def programs() -> Iterator[SettingsProgram]:
    """The programs of other packages that have settings, by the names of their entry points."""
    for entry in sorted(_entries(SETTINGS), key=lambda entry: entry.name):
        yield _loaded(entry)


def allocator_extensions() -> Iterator[AllocatorExtensionEntry]:
    """What other packages add to the allocator, by the names of their entry points."""
    for entry in sorted(_entries(ALLOCATORS), key=lambda entry: entry.name):
        yield _loaded(entry)


def _entries(group: str) -> EntryPoints:
    """The entry points of a group. Imported here: the library is a fifth of what the help of ``plan`` would load."""
    from importlib import metadata

    return metadata.entry_points(group=group)


def _loaded(entry: EntryPoint) -> Any:
    try:
        return entry.load()
    except Exception as error:
        package = entry.dist.name if entry.dist is not None else "an unknown package"
        raise ConfigError(f"{package}: entry point {entry.group} {entry.name} cannot be loaded: {error}") from error
