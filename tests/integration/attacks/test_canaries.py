"""Whatever text of a cluster is secret, wherever it is written: a redacted snapshot does not hold it.

The test knows no schema. It goes over objects as an API server lists them, and puts a canary in the place of each text,
in each key, into the words of each format, and behind what is there.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from hami_plugins.inputs.snapshots import files
from hami_plugins.vendors import builtin

REGISTRY = builtin()
OBJECTS: list[Any] = list(yaml.safe_load_all((Path(__file__).parent / "cluster.yaml").read_text(encoding="utf-8")))
KEPT_KINDS = {
    "Node",
    "Pod",
    "ResourceQuota",
    "PodDisruptionBudget",
    "Queue",
    "PodGroup",
    "PriorityClass",
    "Device",
    "DeviceClass",
    "ResourceClaim",
    "ResourceClaimTemplate",
    "ResourceSlice",
}
WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]*")

Place = tuple[Any, ...]


def places(value: Any, at: Place = ()) -> Iterator[Place]:
    """The way to every text of an object; that of a key ends in ``None``."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield (*at, key, None)
            yield from places(inner, (*at, key))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from places(inner, (*at, number))
    elif isinstance(value, str):
        yield at


ALL: list[tuple[int, Place]] = [(number, place) for number, raw in enumerate(OBJECTS) for place in places(raw)]


def redacted(listing: list[Any]) -> str:
    return json.dumps(files.document(listing, REGISTRY, taken_at="now", redacted=True), ensure_ascii=False)


def changed(number: int, place: Place, make: Callable[[str], Any]) -> list[Any]:
    """One object with one of its texts made anew."""
    listing = [copy.deepcopy(OBJECTS[number])]
    holder = listing[0]
    *way, last = place
    if last is None:
        *way, key = way
        for step in way:
            holder = holder[step]
        made = make(key)
        items = [(made if name == key else name, value) for name, value in holder.items()]
        holder.clear()
        holder.update(items)
        return listing
    for step in way:
        holder = holder[step]
    holder[last] = make(holder[last])
    return listing


CANARIES = (
    "canary{}",
    "10.7.7.{}",
    "Canary{}",
    "canary-{}.corp.example",
    "C0FFEE{}-canary",
    "canary/{}",
    "canary {} x",
    "\u0661\u0662{}",
)


def survivors(plant: Callable[[str, str], str], canaries: tuple[str, ...] = CANARIES) -> list[str]:
    """The places whose canary is in the redacted file, one plant at a time."""
    found = []
    for at, (number, place) in enumerate(ALL):
        word = canaries[at % len(canaries)].format(7000 + at)
        text = redacted(changed(number, place, put(plant, word)))
        if any(piece in text for piece in pieces(word)):
            found.append(f"{OBJECTS[number]['kind']}: {place} = {word}")
    return found


def put(plant: Callable[[str, str], str], word: str) -> Callable[[str], str]:
    """Puts a word into the place of a text, or next to it."""
    return lambda old: plant(old, word)


def always(value: Any) -> Callable[[str], Any]:
    """Puts a value into the place of whatever text."""
    return lambda _: copy.deepcopy(value)


def pieces(word: str) -> list[str]:
    """What must not be found again: the word, and the secret part of one that a format takes apart."""
    return [word, *(piece for piece in re.split(r"[ /]", word) if "canary" in piece.lower())]


def test_there_are_enough_places() -> None:
    assert len(ALL) > 600


@pytest.mark.parametrize(
    "plant",
    [
        pytest.param(lambda _, word: word, id="in place of the text"),
        pytest.param(lambda old, word: f"{old}-{word}", id="behind it"),
        pytest.param(lambda old, word: f"{word}.{old}", id="before it"),
        pytest.param(lambda old, word: f"{word}/{old}", id="as its domain"),
    ],
)
def test_no_canary_survives(plant: Callable[[str, str], str]) -> None:
    assert survivors(plant) == []


def test_no_canary_survives_in_the_words_of_a_format() -> None:
    found = []
    for number, place in ALL:
        if place[-1] is None or "annotations" not in place:
            continue
        old = OBJECTS[number]
        for step in place:
            old = old[step]
        for match in WORD.finditer(old):
            for word in ("canary77", f"{match[0]}canary77", f"canary77-{match[0]}"):
                planted = old[: match.start()] + word + old[match.end() :]
                if "canary77" in redacted(changed(number, place, always(planted))):
                    found.append(f"{place} {planted}")
    assert found == []


@pytest.mark.parametrize("wrong", [["canary77"], {"canary77": "canary77", "b": ["canary77"]}, [{"name": "canary77"}]])
def test_an_object_of_another_form_leaks_nothing(wrong: Any) -> None:
    found = []
    for number, place in ALL:
        if place[-1] is not None and "canary77" in redacted(changed(number, place, always(wrong))):
            found.append(place)
    assert found == []


def test_a_canary_with_an_escape_is_read_before_it_is_looked_for() -> None:
    found = []
    for number, place in ALL:
        if place[:2] == ("metadata", "annotations") and place[-1] is not None:
            old = OBJECTS[number]["metadata"]["annotations"][place[-1]]
            text = redacted(changed(number, place, always(old.replace('"', '"\\u0063anary77', 2))))
            if "anary77" in text:
                found.append(place)
    assert found == []


def test_all_canaries_at_once_leave_nothing() -> None:
    listing = []
    for number, original in enumerate(OBJECTS):
        raw = copy.deepcopy(original)
        for at, place in enumerate(places(original)):
            if place[-1] is None or place in {("kind",), ("apiVersion",)}:
                continue
            holder = raw
            for step in place[:-1]:
                holder = holder[step]
            holder[place[-1]] = f"canary{number}x{at}"
        listing.append(raw)
    assert "canary" not in redacted(listing)


SECRETS = (
    "payroll", "acme", "gpu-box", "corp.example", "alice", "trainer", "hunter2", "r7", "10.1.2", "8c25a887", "TZ1S",
    "3b:00", "pci0000:3b", "eun1", "eu-north", "nn-0123", "cc-77", "SN-77", "i-0123", "MC_",
)  # fmt: skip


@pytest.mark.parametrize("secret", SECRETS)
def test_what_the_cluster_itself_calls_secret_is_gone(secret: str) -> None:
    assert secret not in redacted(OBJECTS)


def test_only_the_kinds_of_a_snapshot_are_in_it() -> None:
    assert {item["kind"] for item in json.loads(redacted(OBJECTS))["items"]} == KEPT_KINDS


def test_a_redacted_snapshot_that_is_redacted_again_is_the_same() -> None:
    once = json.loads(redacted(OBJECTS))
    assert json.loads(redacted([once])) == once
