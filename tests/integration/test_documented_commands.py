"""Every command line in a block of a page is one that the program has, with options that it has."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

TREE = Path(__file__).parents[2]
COMMANDS = TREE / "docs" / "reference" / "cli.md"


def pages() -> list[str]:
    listed = subprocess.run(["git", "ls-files", "*.md"], cwd=TREE, capture_output=True, text=True, check=True)  # noqa: S607
    names = (name for name in listed.stdout.split() if (TREE / name).exists())
    return [name for name in names if TREE / name != COMMANDS and lines(TREE / name)]


def lines(page: Path) -> list[str]:
    """Command lines of the program in the blocks of a page, also behind a pipe."""
    text = page.read_text()
    blocks = re.findall(r"^ *```(?:sh|console|)\n(.*?)^ *```", text, re.DOTALL | re.MULTILINE)
    whole = [line for each in blocks for line in re.sub(r" *\\\n *", " ", each).splitlines()]
    found = (re.search(r"(?:^|\| |\()(?:\$ )?hami-plugins (.*)", line) for line in whole)
    return [re.split(r" +# | \| | > |\) ", match[1])[0] for match in found if match]


def sections() -> Mapping[str, str]:
    """The help of each command, by its words."""
    found = re.findall(r"^## (.+?)\n\n```text\n(.*?)^```", COMMANDS.read_text(), re.DOTALL | re.MULTILINE)
    return dict(found)


def unknown(line: str, known: Mapping[str, str]) -> Iterator[str]:
    """The command or the options of a line that the program does not have."""
    words = shlex.split(line)
    words = words[: words.index("--")] if "--" in words else words
    named = [" ".join(words[:count]) for count in (3, 2, 1) if " ".join(words[:count]) in known]
    if not named:
        yield words[0] if words else line
        return
    for option in (word.partition("=")[0] for word in words if re.fullmatch(r"--?[a-zA-Z][\w-]*(=.*)?", word)):
        if not re.search(rf"(?<![\w-]){re.escape(option)}(?![\w-])", known[named[0]]):
            yield f"{named[0]} {option}"


@pytest.mark.parametrize("name", pages())
def test_the_commands_of_a_page_are_those_of_the_program(name: str) -> None:
    known = sections()
    assert [each for line in lines(TREE / name) for each in unknown(line, known)] == []


def test_a_command_or_an_option_that_the_program_lacks_is_found() -> None:
    known = sections()
    wrong = (
        "plam -f a.yaml",
        "plan --snapshot a --everything",
        "neuron hypernodes apply --purge",
        "plan --html a -f b",
    )
    assert [[*unknown(line, known)] for line in wrong] == [
        ["plam"],
        ["plan --everything"],
        ["neuron hypernodes apply --purge"],
        [],
    ]
