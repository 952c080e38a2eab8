"""Values that the settings of several processes are made of."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, WithJsonSchema
from pydantic.alias_generators import to_camel


def _absolute(path: str) -> str:
    if not path.startswith("/"):
        raise ValueError("not an absolute path")
    return path


Sha256 = Annotated[str, Field(pattern="^([0-9a-f]{64})?$")]
"""A checksum as ``sha256sum`` prints it; empty where any will do."""

AbsolutePath = Annotated[str, AfterValidator(_absolute), WithJsonSchema({"type": "string", "pattern": "^/"})]
Seconds = Annotated[float, Field(ge=0)]
Port = Annotated[int, Field(ge=0, le=65535)]
Name = Annotated[str, Field(min_length=1, max_length=253)]


class Strict(BaseModel):
    """Values as files spell them; an unknown name is refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=to_camel, populate_by_name=True)


class Listen(Strict):
    """Where ``/healthz``, ``/readyz`` and ``/metrics`` are served; port 0 takes a free one.

    Each process has a port of its own, and says so in a class of its own: what is set in part keeps that default.
    """

    host: str = Field(
        "0.0.0.0",  # noqa: S104 - a scraper comes from another machine
        description="Address of the port for probes and metrics.",
    )
    port: Port = Field(0, description="Port for probes and metrics; 0 takes a free one.")


class PageListener(Strict):
    """Address of a process's page for people; the page has no authentication."""

    enabled: bool = Field(False, description="Whether the page of nodes, devices and waiting pods is served.")
    host: str = Field(
        "127.0.0.1",
        description="Address of the page's port. Everybody who reaches it reads the names of pods.",
    )
    port: Port = Field(9398, description="Port of the page; 0 takes a free one.")


class Logging(Strict):
    """How the process logs."""

    level: Literal["debug", "info", "warning", "error"] = Field(
        "info",
        description="Least severe messages that are logged.",
    )
    form: Literal["auto", "json", "console"] = Field(
        "auto",
        description="Form of the log; `auto` is `console` on a terminal and `json` elsewhere.",
    )
