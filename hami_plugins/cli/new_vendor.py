"""``hami-plugins new-vendor``: the files of a package that adds a vendor."""

from __future__ import annotations

from pathlib import Path

from hami_plugins import examples
from hami_plugins.cli.kit import output
from hami_plugins.cli.kit.edge import Exit
from hami_plugins.cli.kit.inputs import vendors_of
from hami_plugins.errors import ManifestError
from hami_plugins.inputs import vendor_scaffold


def write(name: str, domain: str, directory: str | None) -> int:
    """Write the package into a folder that does not exist yet, and print what was written."""
    vendor_scaffold.checked(name, domain, vendors_of(None))
    folder = Path(directory or f"hami-{name.lower()}")
    if folder.exists():
        raise ManifestError(f"{folder}: exists already; remove it, or give another --directory")
    templates = {each: examples.vendor_template(each) for each in vendor_scaffold.TEMPLATES}
    for path, text in vendor_scaffold.files(name, domain, templates).items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        output.line(str(file))
    return Exit.FINE
