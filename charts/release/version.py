"""``python -m charts.release.version [NEW]``: print the version, or write a new one wherever it is spelled.

``hami_plugins/__init__.py`` has it; the wheel takes it from there. Charts and pages cannot read Python, so they repeat
it, and a test holds them to it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from charts.release import ReleaseError
from hami_plugins import __version__

TREE: Final = Path(__file__).parents[2]
SOURCE: Final = "hami_plugins/__init__.py"
REPEATED: Final = (
    "charts/**/Chart.yaml",
    "charts/**/*.md",
    "docs/**/*.md",
    "hami_plugins/examples/vendor/Dockerfile.in",
)
"""Where the version stands besides its source: charts, and pages that name images or files of a release."""

_PLACE: Final = r"(?P<before>(?:\b(?:appV|v)ersion:\s+|__version__ = \"|hami-plugins/[a-z-]+:|hami[-_]plugins-))"
_FORM: Final = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)")
"""What Python's and Helm's rules for versions read alike: three numbers."""


def rewritten(old: str, new: str, tree: Path = TREE) -> Mapping[Path, str]:
    """The files of the tree in which the version ``old`` stands, each with ``new`` in its place.

    Raises ``ReleaseError`` if ``new`` is not a version.
    """
    if _FORM.fullmatch(new) is None:
        raise ReleaseError(f"{new!r} is not a version; write three numbers, such as 0.2.0")
    place = re.compile(rf"{_PLACE}{re.escape(old)}(?![\w.]*\d)")
    texts = {path: path.read_text(encoding="utf-8") for path in _files(tree)}
    changed = {path: place.sub(rf"\g<before>{new}", text) for path, text in texts.items()}
    return {path: text for path, text in changed.items() if text != texts[path]}


def _files(tree: Path) -> Iterator[Path]:
    yield tree / SOURCE
    for pattern in REPEATED:
        yield from sorted(tree.glob(pattern))


def main(arguments: list[str]) -> int:
    """Print the version, or the files that have a new one now; 2 if it is not a version."""
    if not arguments:
        sys.stdout.write(f"{__version__}\n")
        return 0
    try:
        (new,) = arguments
        files = rewritten(__version__, new)
    except ValueError:
        sys.stderr.write("usage: python -m charts.release.version [NEW]\n")
        return 2
    except ReleaseError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    for path, text in files.items():
        path.write_text(text, encoding="utf-8")
        sys.stdout.write(f"{path.relative_to(TREE)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
