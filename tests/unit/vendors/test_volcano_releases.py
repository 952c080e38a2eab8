"""What releases of Volcano do, and which they are."""

from __future__ import annotations

import pytest

from hami_plugins.vendors import volcano_releases
from hami_plugins.vendors.volcano_releases import (
    EVERY,
    DeviceAssigner,
    Quirk,
    ReleaseRange,
    Version,
    version_of_deployment,
    version_of_image,
)


@pytest.mark.parametrize(
    ("image", "version"),
    [
        ("volcanosh/vc-scheduler:v1.14.1", (1, 14, 1)),
        ("registry:5000/volcanosh/vc-scheduler:1.15.0-alpha.2@sha256:0123", (1, 15, 0)),
        ("vc-scheduler:v1.9", (1, 9, 0)),
        ("vc-scheduler:v1.12.0+build.5", (1, 12, 0)),
        ("registry:5000/vc-scheduler", None),
        ("vc-scheduler:latest", None),
        ("vc-scheduler@sha256:0123", None),
        ("", None),
    ],
)
def test_the_version_is_read_off_the_images_tag(image: str, version: tuple[int, int, int] | None) -> None:
    assert version_of_image(image) == version


@pytest.mark.parametrize(
    ("images", "version"),
    [
        (["volcanosh/vc-scheduler:v1.14.1"], (1, 14, 1)),
        (["mesh:latest", "volcanosh/vc-scheduler:v1.14.1", "exporter:v2.0.0"], (1, 14, 1)),
        (["volcanosh/vc-scheduler:latest"], None),
        ([None], None),
        ([], None),
    ],
)
def test_the_version_of_a_deployment_is_that_of_its_first_image_with_one(
    images: list[str | None], version: tuple[int, int, int] | None
) -> None:
    containers = [{"image": image} for image in images]
    deployment = {"spec": {"template": {"spec": {"containers": containers}}}}
    assert version_of_deployment(deployment) == version
    assert version_of_deployment({}) is None


@pytest.mark.parametrize(
    ("span", "inside", "outside", "words"),
    [
        (ReleaseRange(), ["0.1.0", "9.0.0"], [], "of any release"),
        (ReleaseRange(Version(1, 13, 0)), ["1.13.0", "2.0.0"], ["1.12.9"], "from 1.13.0 on"),
        (ReleaseRange(None, Version(1, 16, 0)), ["1.15.9"], ["1.16.0"], "before 1.16.0"),
        (
            ReleaseRange(Version(1, 14, 1), Version(1, 14, 2)),
            ["1.14.1"],
            ["1.14.0", "1.14.2"],
            "from 1.14.1 to before 1.14.2",
        ),
    ],
)
def test_spans_end_before_their_end(span: ReleaseRange, inside: list[str], outside: list[str], words: str) -> None:
    def covered(text: str) -> bool:
        version = volcano_releases.version_of(text)
        assert version is not None
        return span.covers(version)

    assert all(covered(text) for text in inside)
    assert not any(covered(text) for text in outside)
    assert str(span) == words


def test_a_quirk_holds_for_its_releases_unless_somebody_puts_it_right() -> None:
    quirk = Quirk(spans=(ReleaseRange(None, Version(1, 16, 0)),), cured_by=frozenset({DeviceAssigner.WEBHOOK}))
    assert quirk.holds(Version(1, 14, 1), DeviceAssigner.VOLCANO)
    assert quirk.holds(Version(1, 14, 1), DeviceAssigner.EXTENDER)
    assert not quirk.holds(Version(1, 14, 1), DeviceAssigner.WEBHOOK)
    assert not quirk.holds(Version(1, 16, 0), DeviceAssigner.VOLCANO)


def test_of_an_unknown_release_the_worst_is_assumed() -> None:
    assert Quirk(spans=(ReleaseRange(None, Version(1, 0, 0)),)).holds(None, DeviceAssigner.VOLCANO)


@pytest.mark.parametrize(
    ("image", "version"),
    [
        ("volcanosh/vc-scheduler:v1.14.4", (1, 14, 4)),
        ("volcanosh/vc-scheduler:v1.16.0-alpha.1", (1, 16, 0)),
        ("volcanosh/vc-scheduler:v1.13.2", None),
        ("volcanosh/vc-scheduler:v1.17.0", None),
    ],
)
def test_an_image_of_an_unknown_release_names_none(image: str, version: tuple[int, int, int] | None) -> None:
    assert volcano_releases.if_known(version_of_image(image)) == version


@pytest.mark.parametrize(
    ("text", "version"),
    [("1.14", (1, 14, 1)), ("1.15", (1, 15, 1)), ("v1.14.4", (1, 14, 4)), ("1.1", None), ("1.14.9", None)],
)
def test_of_a_series_the_tested_release_counts_else_the_newest(text: str, version: tuple[int, int, int] | None) -> None:
    assert volcano_releases.known_release(text) == version


def test_quirks_say_which_releases_they_are_about() -> None:
    assert str(Quirk(spans=EVERY)) == "every release of Volcano"
    assert str(Quirk(seen=Version(1, 14, 1))) == "seen with Volcano 1.14.1"
    assert str(volcano_releases.HANDSHAKE) == "Volcano before 1.14.3 and from 1.15.0 to before 1.15.1"
