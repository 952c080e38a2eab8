"""What the program says of itself: version, vendors, completion."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING

from typer.completion import get_completion_script  # type: ignore[attr-defined] # typer has no public way

from hami_plugins.cli.completion import VARIABLE
from hami_plugins.cli.kit import output
from hami_plugins.cli.kit.edge import Exit
from hami_plugins.cli.kit.inputs import vendors_of
from hami_plugins.cli.kit.options import Form
from hami_plugins.errors import ManifestError
from hami_plugins.model.vendor import VendorSpec

if TYPE_CHECKING:
    from hami_plugins.config.reference import Setting, SettingsProgram

PROGRAM = "hami-plugins"
SHELLS = ("bash", "zsh", "fish", "powershell", "pwsh")


def list_vendors(name: str | None, *, form: Form, headers: bool, settings: str | None) -> int:
    """All vendors, or one in full."""
    from hami_plugins.output import vendors

    registry = vendors_of(settings)
    specs = tuple(registry)
    if name is not None:
        exact = tuple(spec for spec in registry if spec.name.lower() == name.lower())
        specs = exact or tuple(spec for spec in registry if name.lower() in _called(spec))
        if not specs:
            known = {spelling: spec.name for spec in registry for spelling in _called(spec)}
            known |= {spec.name.lower(): spec.name for spec in registry}
            meant = _meant(name, known) or f"there are {', '.join(spec.name for spec in registry)}"
            raise ManifestError(f"no vendor {name!r}; {meant}")
    if form is not Form.TABLE:
        output.document(vendors.document(specs), form)
        return Exit.FINE
    pages = [vendors.resources(specs), vendors.matrix(specs)] if name is None else map(vendors.detail, specs)
    for at, page in enumerate(pages):
        if at:
            output.line()
        output.table(page, headers=headers)
    return Exit.FINE


def _called(spec: VendorSpec) -> frozenset[str]:
    """How people call a vendor: its name, what its devices are called, who makes them, what they are asked for with."""
    title = spec.title.lower()
    words = (spec.name, title, f"{title}s", spec.vendor, *spec.resources.all())
    return frozenset(each.lower() for each in words if each)


def list_fleets(name: str | None, *, form: Form, headers: bool) -> int:
    """The shipped fleets and shapes, or one fleet as a file."""
    from hami_plugins import examples
    from hami_plugins.inputs.fleets import catalog
    from hami_plugins.output import documents, tables

    if name is not None:
        output.lines(examples.fleet_text(name).removesuffix("\n"))
        return Exit.FINE
    fleets, shapes = catalog.shipped_fleets(), catalog.shipped_shapes()
    if form is not Form.TABLE:
        output.document(documents.fleet_list(fleets, shapes), form)
        return Exit.FINE
    output.table(tables.fleets(fleets), headers=headers)
    output.line()
    output.table(tables.shapes(shapes), headers=headers)
    return Exit.FINE


def list_settings(name: str | None, *, form: Form, headers: bool) -> int:
    """All settings of all programs, or those whose key, variable or program begins with a name."""
    from hami_plugins.cli import setting_list

    found = found_settings(name or "")
    if form is not Form.TABLE:
        output.document(setting_list.document(found), form)
        return Exit.FINE
    if headers:
        output.prose("Settings are YAML. Environment variables win over the file; lists and mappings are JSON there.")
    for program, settings in found:
        if headers:
            output.line()
            output.prose(f"{program.name}: {program.option} of {program.commands}")
        output.table(setting_list.table(settings), headers=headers)
    return Exit.FINE


def found_settings(name: str) -> tuple[tuple[SettingsProgram, tuple[Setting, ...]], ...]:
    """The settings whose key, variable or program begins with a name. Raises ``ManifestError`` where there are none."""
    from hami_plugins.cli.kit import plugins
    from hami_plugins.config import reference, settings

    known = [(each, reference.settings_of(each)) for each in (settings.PROGRAM, *plugins.programs())]
    wanted = name.lower()
    found = tuple(
        (program, chosen)
        for program, listed in known
        if (chosen := tuple(each for each in listed if _begins(program, each, wanted)))
    )
    if not found:
        keys = dict.fromkeys(each.key for _, listed in known for each in listed)
        spelled = {each.lower(): each for each in [*keys, *(program.name for program, _ in known)]}
        meant = _meant(name, spelled) or "without a name all are listed"
        raise ManifestError(f"no setting {name!r}; {meant}")
    return found


def _meant(name: str, known: Mapping[str, str]) -> str:
    """A question with the names that are nearest to a mistyped one, by their spelling in small letters; or nothing."""
    near = dict.fromkeys(known[each] for each in get_close_matches(name.lower(), known, 3, 0.6))
    return f"did you mean {' or '.join(near)}?" if near else ""


def _begins(program: SettingsProgram, setting: Setting, wanted: str) -> bool:
    return any(each.lower().startswith(wanted) for each in (program.name, setting.key, setting.variable))


def completion_script(shell: str) -> None:
    """The script of that shell, whichever is used now; typer's own option prints that of the shell it runs in."""
    if shell not in SHELLS:
        raise ManifestError(f"no completion for {shell!r}; there is one for {', '.join(SHELLS)}")
    output.lines(get_completion_script(prog_name=PROGRAM, complete_var=VARIABLE, shell=shell))
