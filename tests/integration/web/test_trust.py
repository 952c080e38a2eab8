"""The command ``trust`` of each product: the one that writes what API servers trust."""

from __future__ import annotations

import base64
import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from hami_plugins.cli import main
from hami_plugins.cli.kit import trust
from hami_plugins.errors import ConfigError, KubeError
from hami_plugins.kube.client import KubeClient, connect_to
from hami_plugins.sandbox.apiserver import ApiServer
from hami_plugins.web.settings import ServedSettings

PRODUCTS = {
    "allocator": ("hami-plugins-allocator", ["mutating"]),
    "koordinator": ("koordinator-adapter", ["mutating", "validating"]),
}


@pytest.fixture
def server() -> Iterator[ApiServer]:
    with ApiServer() as running:
        yield running


@pytest.fixture
def api(server: ApiServer) -> Iterator[KubeClient]:
    with contextlib.closing(connect_to(server.url, component="test").within(5)) as client:
        yield client


def put(server: ApiServer, name: str, kind: str) -> None:
    hook = {"name": "w.example.org", "clientConfig": {"url": "https://127.0.0.1:1/x"}, "sideEffects": "None"}
    server.put(
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": f"{kind.title()}WebhookConfiguration",
            "metadata": {"name": name},
            "webhooks": [{**hook, "admissionReviewVersions": ["v1"]}],
        }
    )


def bundle(server: ApiServer, name: str, kind: str) -> bytes:
    (hook,) = server.get(f"{kind}webhookconfigurations", name)["webhooks"]
    return base64.b64decode(hook["clientConfig"].get("caBundle", ""))


def settings(**certificate: object) -> ServedSettings:
    return ServedSettings.model_validate(
        {
            "webhooks": {"configuration": "c"},
            "certificate": {"directory": "/nowhere", "secret": "s", **certificate},
            "service": {"name": "n", "namespace": "default"},
            "lease": {"name": "n"},
            "listen": {"port": 0},
        }
    )


@pytest.mark.parametrize("product", PRODUCTS)
def test_each_product_has_its_configurations_trust_its_secret(
    server: ApiServer, tmp_path: Path, capsys: pytest.CaptureFixture[str], product: str
) -> None:
    name, kinds = PRODUCTS[product]
    for kind in kinds:
        put(server, name, kind)
    config = tmp_path / "settings.yaml"
    config.write_text(yaml.safe_dump({"certificate": {"bootstrap": True}, "service": {"namespace": "default"}}))
    words = [product, "trust", "--config", str(config), "--kubeconfig", str(server.kubeconfig(tmp_path / "kubeconfig"))]
    for verb in ("trusts", "already trusts"):
        assert main(words) == 0
        trusting = f"{verb} the authorities in secret default/{name}-tls"
        said = [f"{kind} webhook configuration {name} {trusting}" for kind in kinds]
        assert capsys.readouterr().out.splitlines() == said
    held = server.get("secrets", f"{name}-tls", "default")["data"]
    for kind in kinds:
        assert bundle(server, name, kind) == base64.b64decode(held["ca.crt"])


def test_a_configuration_that_comes_later_is_waited_for(server: ApiServer, api: KubeClient) -> None:
    waited: list[float] = []

    def sleep(seconds: float) -> None:
        waited.append(seconds)
        if len(waited) == 2:
            put(server, "c", "mutating")

    assert trust.run(api, settings(bootstrap=True), ["mutating"], patience=5, sleep=sleep) == 0
    assert len(waited) == 2
    assert bundle(server, "c", "mutating").startswith(b"-----BEGIN CERTIFICATE-----")


def test_what_still_fails_at_the_end_is_said(api: KubeClient) -> None:
    waited: list[float] = []
    with pytest.raises(KubeError, match='"c" not found'):
        trust.run(api, settings(bootstrap=True), ["mutating"], patience=3, sleep=waited.append)
    assert sum(waited) == 3


def test_certificates_of_another_program_are_left_alone(server: ApiServer, api: KubeClient) -> None:
    with pytest.raises(ConfigError, match=r"certificate\.bootstrap is false"):
        trust.run(api, settings(), ["mutating"], patience=3)
    assert not server.requests.counts()
