"""A hook of mkdocs: links that leave docs/ lead to files that the site does not have, so their paths are shown."""

import re
from pathlib import PurePosixPath
from posixpath import normpath
from typing import Any

_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\((\.\./[^)\s]+)\)")


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """The page with such links as text and path."""
    folder = PurePosixPath("docs", page.file.src_uri).parent

    def shown(link: re.Match[str]) -> str:
        path = normpath(str(folder / link[2].partition("#")[0]))
        if path.startswith("docs/"):
            return link[0]
        text = link[1].strip("`")
        return f"`{path}`" if path.endswith(text) else f"{link[1]} (`{path}`)"

    return _LINK.sub(shown, markdown)
