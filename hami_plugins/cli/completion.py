"""What the shell may complete, and the helper that kubectl asks for completions of its plug-ins."""

from __future__ import annotations

import io
import os
import sys
from contextlib import redirect_stdout, suppress
from typing import Final

VARIABLE: Final = "_HAMI_PLUGINS_COMPLETE"
"""By this variable the shell's script calls the program for words."""
_FILES_TOO: Final = ":0"
"""kubectl's word for "files may follow, too" (ShellCompDirectiveDefault)."""


def fleets(incomplete: str) -> list[str]:
    """The shipped fleets that begin so."""
    from hami_plugins.examples import fleet_names

    return [name for name in fleet_names() if name.startswith(incomplete)]


def shapes(incomplete: str) -> list[str]:
    """The shapes of nodes that begin so."""
    from hami_plugins.inputs.fleets import shape_names

    return [f"{name}=1" for name in shape_names() if name.startswith(incomplete)]


def vendors(incomplete: str) -> list[str]:
    """The vendors that begin so, whatever the case."""
    from hami_plugins.vendors import BUILTIN

    return [spec.name for spec in BUILTIN if spec.name.lower().startswith(incomplete.lower())]


def systems(incomplete: str) -> list[str]:
    """The systems whose allocation keys can be protected and begin so."""
    return [name for name in ("hami", "koordinator", "neuron", "volcano") if name.startswith(incomplete)]


def kinds(incomplete: str) -> list[str]:
    """What can be explained and begins so."""
    return [kind for kind in ("pod", "job") if kind.startswith(incomplete)]


def shells(incomplete: str) -> list[str]:
    """The shells that begin so."""
    return [shell for shell in ("bash", "zsh", "fish", "powershell") if shell.startswith(incomplete)]


def modes(incomplete: str) -> list[str]:
    """Who may say which cards pods get, and begins so."""
    from hami_plugins.vendors.volcano_releases import DeviceAssigner

    return [mode.value for mode in DeviceAssigner if mode.value.startswith(incomplete)]


def policies(incomplete: str) -> list[str]:
    """The policies that begin so, after those that stand there already."""
    given, comma, last = incomplete.rpartition(",")
    words = [f"{key}={value}" for key, values in _POLICIES.items() for value in values]
    return [f"{given}{comma}{word}" for word in words if word.startswith(last)]


_POLICIES: Final = {
    "node": ("binpack", "spread"),
    "device": ("binpack", "spread", "numa", "mutex", "topology-aware"),
}


def for_kubectl() -> int:
    """``kubectl_complete-hami``: the words typed so far come as arguments, completions go out one on a line."""
    from hami_plugins.cli.app import app

    words = sys.argv[1:]
    asked = {
        VARIABLE: "complete_bash",
        "COMP_WORDS": " ".join(["hami-plugins", *words]),
        "COMP_CWORD": str(len(words)),
    }
    os.environ.update(asked)
    found = io.StringIO()
    with redirect_stdout(found), suppress(SystemExit):
        app([], prog_name="hami-plugins", complete_var=VARIABLE)
    for name in asked:
        del os.environ[name]
    print(*filter(None, found.getvalue().splitlines()), _FILES_TOO, sep="\n")  # noqa: T201 - kubectl reads stdout
    return 0
