"""The files of a package that adds a vendor, from templates: text in, text out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from hami_plugins.errors import ManifestError
from hami_plugins.model.vendor import VendorSpec

TEMPLATES: Final[Mapping[str, str]] = {
    "pyproject.toml": "pyproject.toml",
    "init.py": "hami_{name}/__init__.py",
    "vendor.py": "hami_{name}/vendor.py",
    "test_vendor.py": "test_vendor.py",
    "node.yaml": "node.yaml",
    "job.yaml": "job.yaml",
    "allocator.yaml": "allocator.yaml",
    "Dockerfile": "Dockerfile",
}
"""Each template, and where its file belongs in the package."""

_NAME: Final = re.compile(r"[A-Z][A-Za-z0-9]{1,29}")
_LABEL: Final = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
_DOMAIN: Final = re.compile(rf"{_LABEL}(\.{_LABEL})+")
_LONGEST: Final = 200


def checked(name: str, domain: str, known: Iterable[VendorSpec]) -> None:
    """Raises ``ManifestError`` for a name or a domain that a vendor cannot have, or that another one has."""
    if not _NAME.fullmatch(name):
        raise ManifestError(f"name {name[:60]!r}: begin with a capital and use 2 to 30 letters and digits, as in Acme")
    if len(domain) > _LONGEST or not _DOMAIN.fullmatch(domain):
        raise ManifestError(f"--domain {domain[:60]!r}: not a domain of resource names; write one such as acme.example")
    for spec in known:
        if spec.name.lower() == name.lower():
            raise ManifestError(f"name {name!r}: there is a vendor {spec.name}; choose another name")
        for resource in spec.resources.all():
            if resource.partition("/")[0] == domain:
                raise ManifestError(f"--domain {domain!r}: vendor {spec.name} has {resource}; choose another domain")


def files(name: str, domain: str, templates: Mapping[str, str]) -> Mapping[str, str]:
    """The text of every file by its path in the package, from the text of every template by its name."""
    lower = name.lower()

    def filled(text: str) -> str:
        return text.replace("@NAME@", name).replace("@name@", lower).replace("@DOMAIN@", domain)

    return {path.format(name=lower): filled(templates[template]) for template, path in TEMPLATES.items()}
