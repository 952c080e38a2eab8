"""New resource names in the places of old ones."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from hami_plugins.model.edits import DropEdit, Edit, PutEdit, RenameEdit
from koordinator_adapter.core.translation.model import TranslationContext, at


def replaced(case: TranslationContext, old: Collection[str], written: Mapping[str, int | str]) -> Iterator[Edit]:
    """The amounts of a container under new names, in limits and where it had some in requests.

    A name that stays keeps its place, each other old name gives its place to the next new one, or goes; further new
    names follow.
    """
    for part in ("limits", "requests"):
        here = (*case.path, "resources", part)
        found = at(case.raw, here)
        listed = found if isinstance(found, dict) else {}
        names = [name for name in listed if name in old]
        if not names and part == "requests":
            continue
        waiting = {name: value for name, value in written.items() if name not in names}
        for name in names:
            if name in written:
                yield from () if str(listed[name]) == str(written[name]) else (PutEdit((*here, name), written[name]),)
            elif waiting:
                new = next(iter(waiting))
                yield RenameEdit((*here, name), new, waiting.pop(new))
            else:
                yield DropEdit((*here, name))
        for new, value in waiting.items():
            yield PutEdit((*here, new), value)
