"""What an operator can set about a server that the API server asks: where it listens, its certificate, its lease.

A process gives names, folders and ports of its own in classes that stand on these.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, Self, TypeVar

from pydantic import Field, model_validator

from hami_plugins.config import layering, texts
from hami_plugins.config.layering import Layer
from hami_plugins.config.values import AbsolutePath, Listen, Logging, Name, Port, Strict
from hami_plugins.errors import ConfigError
from hami_plugins.kube.election import Timing

NAMESPACE_VARIABLE: Final = "POD_NAMESPACE"

Of = TypeVar("Of", bound="ServedSettings")


class Webhooks(Strict):
    """Where the API server reaches the webhooks, over TLS.

    ``configuration`` is the name of the objects that tell the API server of them. They belong to the cluster, so two
    installations have two names for them.
    """

    host: str = "0.0.0.0"  # noqa: S104 - the API server is another machine
    port: Port = 9443
    configuration: Name


class Certificate(Strict):
    """Files of the server's certificate and key (PEM) in ``directory``; they may change at any time.

    With ``bootstrap`` the server makes them itself and keeps them in the ``secret`` of its namespace for all replicas;
    the command ``trust`` has the webhooks' configuration trust them. ``names`` are further names and addresses that it
    is good for.

    ``client_ca`` is a file of authorities; only clients with a certificate from one of them reach the webhooks then.
    """

    directory: AbsolutePath
    file: Annotated[str, Field(min_length=1)] = "tls.crt"
    key: Annotated[str, Field(min_length=1)] = "tls.key"
    bootstrap: bool = False
    secret: Name
    names: tuple[Name, ...] = ()
    client_ca: AbsolutePath | None = None


class Service(Strict):
    """The Service in front of the server; certificates are for its name."""

    name: Name
    namespace: Name
    port: Annotated[int, Field(ge=1, le=65535)] = 443

    @property
    def host(self) -> str:
        """Its name in the cluster."""
        return f"{self.name}.{self.namespace}.svc"


class Lease(Strict):
    """By which one of several replicas is the one that acts; seconds.

    Who holds it renews it every ``retry``, gives up where that has not worked for ``deadline``, and may be replaced
    ``duration`` after it last did.
    """

    name: Name
    duration: Annotated[float, Field(ge=1)] = 15.0
    deadline: Annotated[float, Field(gt=0)] = 10.0
    retry: Annotated[float, Field(gt=0)] = 2.0

    @model_validator(mode="after")
    def _is_possible(self) -> Self:
        try:
            _ = self.timing
        except ConfigError as error:
            raise ValueError(str(error)) from error
        return self

    @property
    def timing(self) -> Timing:
        """The same for an election."""
        return Timing(duration=self.duration, deadline=self.deadline, retry=self.retry)


class ServedSettings(Strict):
    """What all such servers have in common.

    ``shutdown_delay`` is how long a replica that has to end goes on answering, ready no more: others may take so long
    to learn that nobody is to be sent there.
    """

    version: Literal[1] = 1
    webhooks: Webhooks
    certificate: Certificate
    service: Service
    lease: Lease
    listen: Listen
    log: Logging = Logging()
    shutdown_delay: Annotated[float, Field(ge=0, le=300)] = 5.0

    @property
    def certified_names(self) -> tuple[str, ...]:
        """The names and addresses that the server's own certificate is for."""
        return (self.service.host, f"{self.service.host}.cluster.local", *self.certificate.names)


def load(model: type[Of], text: str, env: Mapping[str, str], prefix: str) -> Of:
    """The settings of a server, whose Service is in the namespace of its pod unless something else is said.

    ``text`` is the YAML and may be empty, ``prefix`` is what variables begin with that set something.
    Raises ``ConfigError`` with the source, the path, the value and what is allowed.
    """
    usual: dict[str, Any] = {}
    if env.get(NAMESPACE_VARIABLE):
        usual = {"service": {"namespace": env[NAMESPACE_VARIABLE]}}
    layers = [
        Layer(NAMESPACE_VARIABLE, usual),
        Layer("settings", texts.mapping(text, "settings")),
        layering.of_environment(env, prefix),
    ]
    return layering.made(model, layers)
