"""The body of a watch: JSON objects, one per line, cut anywhere by the network."""

from __future__ import annotations

from collections.abc import Iterable, Iterator


def lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Whole lines without their end, empty ones left out. Text after the last end of line is not a line.

    Pieces of a long line are put together once, however many they are.
    """
    pieces: list[bytes] = []
    for chunk in chunks:
        first, *others = chunk.split(b"\n")
        pieces.append(first)
        for other in others:
            if line := b"".join(pieces).strip():
                yield line
            pieces = [other]
