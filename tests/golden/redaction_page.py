"""The list of words in the page about redaction: ``python -m tests.golden.redaction_page`` writes it anew."""

from __future__ import annotations

from pathlib import Path

from hami_plugins.cli.kit import inputs
from hami_plugins.inputs.snapshots.published import Published, markdown

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "redaction.md"
BEGIN, END = "<!-- words -->\n", "<!-- end of words -->\n"


def page() -> str:
    """The page with the list as the program has it."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    words = markdown(Published(inputs.registry_of(inputs.settings_of(None))).sections())
    return f"{before}{BEGIN}\n{words}\n\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
