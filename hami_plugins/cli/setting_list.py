"""What ``hami-plugins settings`` prints."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hami_plugins.config.reference import Setting, SettingsProgram
from hami_plugins.output import schema
from hami_plugins.output.rows import Table, TableRow
from hami_plugins.output.schema import API_VERSION


def table(found: Iterable[Setting]) -> Table:
    """A row per setting."""
    return Table(
        columns=("KEY", "VALUES", "DEFAULT", "MEANING", "VARIABLE"),
        rows=tuple(
            TableRow((each.key, each.values, each.default, each.meaning.replace("`", ""), each.variable or "-"))
            for each in found
        ),
        whole=frozenset({0, 4}),
        optional=(4, 1),
    )


def document(found: Iterable[tuple[SettingsProgram, Sequence[Setting]]]) -> schema.SettingListDocument:
    """Programs with their settings."""
    return {
        "apiVersion": API_VERSION,
        "kind": "SettingList",
        "programs": [
            {
                "name": program.name,
                "option": program.option,
                "commands": program.commands,
                "settings": [
                    {
                        "key": each.key,
                        "variable": each.variable,
                        "values": each.values,
                        "default": each.default,
                        "meaning": each.meaning,
                    }
                    for each in settings
                ],
            }
            for program, settings in found
        ],
    }
