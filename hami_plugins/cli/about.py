"""What the program says of itself: version, vendors, completion."""

from __future__ import annotations

from difflib import get_close_matches

from typer.completion import get_completion_script  # type: ignore[attr-defined] # typer has no public way

from hami_plugins.cli import output
from hami_plugins.cli.completing import VARIABLE
from hami_plugins.cli.edge import Exit
from hami_plugins.cli.inputs import registry_of, settings_of
from hami_plugins.cli.options import Form
from hami_plugins.errors import ManifestError
from hami_plugins.model.vendor import VendorSpec

PROGRAM = "hami-plugins"
SHELLS = ("bash", "zsh", "fish", "powershell", "pwsh")


def list_vendors(name: str | None, *, form: Form, headers: bool, settings: str | None) -> int:
    """All vendors, or one in full."""
    from hami_plugins.report import documents, tables

    registry = registry_of(settings_of(settings))
    specs = tuple(registry)
    if name is not None:
        exact = tuple(spec for spec in registry if spec.name.lower() == name.lower())
        specs = exact or tuple(spec for spec in registry if name.lower() in _called(spec))
        if not specs:
            known = {spelling: spec.name for spec in registry for spelling in _called(spec)}
            known |= {spec.name.lower(): spec.name for spec in registry}
            near = dict.fromkeys(known[each] for each in get_close_matches(name.lower(), known, 3, 0.6))
            meant = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(s.name for s in registry)}"
            raise ManifestError(f"there is no vendor {name!r}; {meant}")
    if form is not Form.TABLE:
        output.document(documents.vendor_list(specs), form)
    elif name is None:
        output.table(tables.vendors(specs), headers=headers)
    else:
        for at, spec in enumerate(specs):
            if at:
                output.line()
            output.table(tables.vendor(spec), headers=headers)
    return Exit.FINE


def _called(spec: VendorSpec) -> frozenset[str]:
    """How people call a vendor: its name, what its devices are called, who makes them, what they are asked for with."""
    title = spec.title.lower()
    words = (spec.name, title, f"{title}s", spec.maker, *spec.resources.all())
    return frozenset(each.lower() for each in words if each)


def list_fleets(name: str | None, *, form: Form, headers: bool) -> int:
    """The shipped fleets and shapes, or one fleet as a file."""
    from hami_plugins import examples
    from hami_plugins.report import documents, tables
    from hami_plugins.report.fleets import catalog

    if name is not None:
        output.line(examples.fleet_text(name).removesuffix("\n"))
        return Exit.FINE
    fleets, shapes = catalog.shipped_fleets(), catalog.shipped_shapes()
    if form is not Form.TABLE:
        output.document(documents.fleet_list(fleets, shapes), form)
        return Exit.FINE
    output.table(tables.fleets(fleets), headers=headers)
    output.line()
    output.table(tables.shapes(shapes), headers=headers)
    return Exit.FINE


def completion_script(shell: str) -> None:
    """The script of that shell, whichever is used now; typer's own option prints that of the shell it runs in."""
    if shell not in SHELLS:
        raise ManifestError(f"no completion for {shell!r}; there is one for {', '.join(SHELLS)}")
    output.line(get_completion_script(prog_name=PROGRAM, complete_var=VARIABLE, shell=shell))
