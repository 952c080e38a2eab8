"""What a user chooses for a translation; without imports, as the command line names them."""

from __future__ import annotations

from enum import StrEnum


class NoCoreLimit(StrEnum):
    """What a container without a limit of cores asks of Koordinator, which counts no cores for one that names none.

    ``SHARE`` books a share that stands for its place on the card and switches the limit off in the container;
    ``ABSENT`` books nothing, so that the cores can be promised twice; ``WHOLE`` takes the whole card.
    """

    SHARE = "share"
    ABSENT = "absent"
    WHOLE = "whole"
