"""The settings of the adapter."""

from __future__ import annotations

import pytest

from hami_plugins.errors import ConfigError
from koordinator_adapter.core.translation.choices import NoCoreLimit
from koordinator_adapter.server.settings import PREFIX, SETTINGS


def test_without_anything_said_devices_are_published_and_nothing_is_injected() -> None:
    found = SETTINGS.load("", {})
    assert (found.devices.enabled, found.injection.mode, found.service.host, found.listen.port) == (
        True,
        "never",
        "koordinator-adapter.koordinator-system.svc",
        9396,
    )


def test_the_environment_wins_over_the_file_and_the_file_over_where_the_pod_runs() -> None:
    env = {
        "POD_NAMESPACE": "here",
        f"{PREFIX}TRANSLATION__NO_CORE_LIMIT": "whole",
        f"{PREFIX}ADMISSION__WITHOUT_LIMITS": "refuse",
    }
    found = SETTINGS.load("translation: {noCoreLimit: absent, slicesPerCard: 4}", env)
    assert (found.translation.no_core_limit, found.translation.slices_per_card) == (NoCoreLimit.WHOLE, 4)
    assert found.admission.without_limits == "refuse"
    assert found.service.namespace == "here"
    assert SETTINGS.load("service: {namespace: there}", env).service.namespace == "there"


def test_what_is_set_in_part_keeps_the_other_defaults() -> None:
    found = SETTINGS.load("{listen: {host: 127.0.0.1}, certificate: {bootstrap: true}}", {})
    assert (found.listen.port, found.certificate.secret) == (9396, "koordinator-adapter-tls")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("injection: {mode: sometimes}", "settings: injection.mode"),
        ("devices: {workers: 0}", "settings: devices.workers"),
        ("devices: {grace: -1}", "settings: devices.grace"),
        ("translation: {slicesPerCard: 101}", "settings: translation.slicesPerCard"),
        ("node: {librarySource: lib}", "not an absolute path"),
        ("lease: {duration: 5}", "the duration has to be longer than the deadline"),
        ("admision: {}", "settings: admision: no such setting; did you mean admission"),
    ],
)
def test_what_is_wrong_is_named_with_its_source_and_place(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        SETTINGS.load(text, {})
