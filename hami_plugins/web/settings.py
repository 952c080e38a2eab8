"""What an operator can set about a server that the API server asks: where it listens, its certificate, its lease.

A server adds settings of its own in a class that stands on ``ServedSettings``; ``server_defaults`` names its objects.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, Generic, Literal, Self, TypeVar

from pydantic import Field, create_model, model_validator

from hami_plugins.config import layers, texts
from hami_plugins.config.layers import Layer
from hami_plugins.config.reference import SettingsProgram
from hami_plugins.config.values import AbsolutePath, Listen, Logging, Name, Port, Strict
from hami_plugins.errors import ConfigError
from hami_plugins.kube.election import LeaseTiming

NAMESPACE_VARIABLE: Final = "POD_NAMESPACE"

Of = TypeVar("Of", bound="ServedSettings")


class Webhooks(Strict):
    """Where the API server reaches the webhooks, over TLS.

    ``configuration`` is the name of the objects that tell the API server of them. They belong to the cluster, so two
    installations have two names for them.
    """

    host: str = Field(
        "0.0.0.0",  # noqa: S104 - the API server is another machine
        description="Address of the port for webhooks.",
    )
    port: Port = Field(9443, description="Port for webhooks; 0 takes a free one.")
    configuration: Name = Field(
        description="Name of the webhook configurations in the cluster. Two installations need two names.",
    )


class Certificate(Strict):
    """Files of the server's certificate and key (PEM) in ``directory``; they may change at any time.

    With ``bootstrap`` the server makes them itself and keeps them in the ``secret`` of its namespace for all replicas;
    the command ``trust`` has the webhooks' configuration trust them. ``names`` are further names and addresses that it
    is good for.

    ``client_ca`` is a file of authorities; only clients with a certificate from one of them reach the webhooks then.
    """

    directory: AbsolutePath = Field(description="Directory of the server's certificate and key.")
    file: Annotated[str, Field(min_length=1)] = Field("tls.crt", description="File name of the certificate (PEM).")
    key: Annotated[str, Field(min_length=1)] = Field("tls.key", description="File name of the private key (PEM).")
    bootstrap: bool = Field(
        False,
        description="The server makes its own certificates and keeps them in `secret`; run `trust` once.",
    )
    secret: Name = Field(description="Name of the Secret for `bootstrap`.")
    names: tuple[Name, ...] = Field((), description="Further names and addresses in certificates of `bootstrap`.")
    client_ca: AbsolutePath | None = Field(
        None,
        description="File of authorities (PEM); only clients with a certificate from one of them may call webhooks.",
    )


class Service(Strict):
    """The Service in front of the server; certificates are for its name."""

    name: Name = Field(description="Name of the Service in front of the server.")
    namespace: Name = Field(description="Namespace of the Service. Default: `POD_NAMESPACE`, where that is set.")
    port: Annotated[int, Field(ge=1, le=65535)] = Field(443, description="Port of the Service.")

    @property
    def host(self) -> str:
        """Its name in the cluster."""
        return f"{self.name}.{self.namespace}.svc"


class Lease(Strict):
    """By which one of several replicas is the one that acts; seconds.

    Who holds it renews it every ``retry``, gives up where that has not worked for ``deadline``, and may be replaced
    ``duration`` after it last did.
    """

    name: Name = Field(description="Name of the Lease that the acting replica holds.")
    duration: Annotated[float, Field(ge=1)] = Field(
        15.0,
        description="Seconds after the last renewal until another replica may take the Lease.",
    )
    deadline: Annotated[float, Field(gt=0)] = Field(
        10.0,
        description="Seconds without a renewal after which the replica stops acting. Less than `duration`.",
    )
    retry: Annotated[float, Field(gt=0)] = Field(
        2.0,
        description="Seconds between two attempts to get or renew the Lease. Less than `deadline`.",
    )

    @model_validator(mode="after")
    def _is_possible(self) -> Self:
        try:
            _ = self.timing
        except ConfigError as error:
            raise ValueError(str(error)) from error
        return self

    @property
    def timing(self) -> LeaseTiming:
        """The same for an election."""
        return LeaseTiming(duration=self.duration, deadline=self.deadline, retry=self.retry)


class ServedSettings(Strict):
    """The common settings of all such servers.

    ``shutdown_delay`` is how long a replica that has to end goes on answering, no longer ready: its clients may take
    that long to learn that they must not use it.
    """

    version: Literal[1] = Field(1, description="Version of the file's format.")
    webhooks: Webhooks
    certificate: Certificate
    service: Service
    lease: Lease
    listen: Listen
    log: Logging = Logging()
    shutdown_delay: Annotated[float, Field(ge=0, le=300)] = Field(
        5.0,
        description="Seconds that a replica continues to answer after it is asked to stop.",
    )

    @property
    def certified_names(self) -> tuple[str, ...]:
        """The names and addresses that the server's own certificate is for."""
        return (self.service.host, f"{self.service.host}.cluster.local", *self.certificate.names)

    def plain_url(self, path: str) -> str:
        """Where the Service answers without TLS."""
        return f"http://{self.service.host}:{self.listen.port}{path}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedProgram(SettingsProgram, Generic[Of]):
    """A server whose settings are listed and read."""

    model: type[Of]
    option: str = "--config FILE"

    def load(self, text: str, env: Mapping[str, str]) -> Of:
        """The settings: built-in defaults, then ``text`` (YAML, may be empty), then variables.

        The Service is in the namespace of the server's pod by default. Raises ``ConfigError`` with the source, the
        path, the value and the allowed values.
        """
        usual: dict[str, Any] = {}
        if env.get(NAMESPACE_VARIABLE):
            usual = {"service": {"namespace": env[NAMESPACE_VARIABLE]}}
        found = [
            Layer(NAMESPACE_VARIABLE, usual),
            Layer("settings", texts.mapping(text, "settings")),
            layers.of_environment(env, self.prefix),
        ]
        return layers.made(self.model, found)


def server_defaults(*, name: str, namespace: str, port: int) -> Callable[[type[Of]], type[Of]]:
    """Decorates the settings of a server with the names of its objects and its port for probes.

    Each part becomes a class of the server's own, because what is set in part keeps the other defaults.
    """

    def decorate(model: type[Of]) -> type[Of]:
        def part(base: type[Strict], **fields: Any) -> tuple[type[Strict], Strict]:
            title = f"{model.__name__.removesuffix('Settings')}{base.__name__}"
            made = create_model(title, __base__=base, __module__=model.__module__, **fields)
            return made, made()

        return create_model(
            model.__name__,
            __base__=model,
            __module__=model.__module__,
            __doc__=model.__doc__,
            webhooks=part(Webhooks, configuration=(Name, name)),
            certificate=part(Certificate, directory=(AbsolutePath, f"/var/run/{name}"), secret=(Name, f"{name}-tls")),
            service=part(Service, name=(Name, name), namespace=(Name, namespace)),
            lease=part(Lease, name=(Name, name)),
            listen=part(Listen, port=(Port, port)),
        )

    return decorate
