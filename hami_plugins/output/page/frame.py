"""The common frame of every page: head, title, theme, style sheet, and the policy that blocks all external content.

A page's own template extends ``frame.html.j2`` and fills its block ``content``. Names come from strangers: templates
escape every one, and the policy forbids a page to load or run anything but itself.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import Final, Protocol

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

FOOTER: Final = "Made by hami-plugins. This file holds everything it shows; it loads and sends nothing."

_OWN: Final = "hami_plugins.output.page"


class Framed(Protocol):
    """What the frame shows of a page; everything else is for the page's own template."""

    @property
    def title(self) -> str:
        """The heading."""

    @property
    def subtitle(self) -> str:
        """What stands below the heading: where it comes from, and of when it is."""

    @property
    def footer(self) -> str:
        """The last line."""


def policy(*scripts: str, package: str = _OWN) -> str:
    """The Content-Security-Policy of a page with these scripts: it loads nothing, and runs its own script alone."""
    digest = base64.b64encode(hashlib.sha256(_script(scripts, package).encode()).digest()).decode()
    return (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; base-uri 'none'; "
        "form-action 'none'"
    )


def rendered(
    page: Framed, template: str, *, package: str = _OWN, styles: Sequence[str] = (), scripts: Sequence[str] = ()
) -> str:
    """A page as HTML. The template, and the styles and scripts in addition to the frame's own, are files of
    ``package``.
    """
    style = "".join([_asset(_OWN, "page.css"), *(_asset(package, each) for each in styles)])
    return (
        _environment(package)
        .get_template(template)
        .render(
            page=page,
            style=Markup(style),  # noqa: S704 - our own file, not a stranger's text
            script=Markup(_script(scripts, package)),  # noqa: S704 - our own file, not a stranger's text
            policy=Markup(policy(*scripts, package=package)),  # noqa: S704 - ours as well
        )
    )


def _script(scripts: Sequence[str], package: str) -> str:
    return "".join([_asset(_OWN, "theme.js"), *(_asset(package, each) for each in scripts)])


@cache
def _environment(package: str) -> Environment:
    return Environment(
        loader=ChoiceLoader([PackageLoader(each) for each in dict.fromkeys((package, _OWN))]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


@cache
def _asset(package: str, name: str) -> str:
    return resources.files(package).joinpath("templates", name).read_text(encoding="utf-8")
