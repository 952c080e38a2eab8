"""The work of ``neuron usage``: the usage of a node's containers, as its agent reports it."""

from __future__ import annotations

import urllib.error
import urllib.request
from typing import Final

import orjson

from hami_plugins.cli.kit import output
from hami_plugins.cli.kit.edge import Exit
from hami_plugins.cli.kit.options import Form
from hami_plugins.errors import ConfigError, WireError
from hami_plugins.output.usage import table
from hami_plugins.wire import usage
from hami_plugins.wire.usage import NodeUsage

SECONDS: Final = 10.0
"""How long the agent may take."""

LARGEST_ANSWER: Final = 16 << 20
"""Bytes."""


def show_usage(url: str, *, form: Form, headers: bool) -> int:
    """Print what containers use. Raises ``ConfigError`` where no agent answers, or where it has no figures."""
    found = _asked(url)
    if form is Form.TABLE:
        output.table(table(found.containers), headers=headers)
    else:
        output.document(usage.encode(found), form)
    return Exit.FINE


def _asked(url: str) -> NodeUsage:
    if not url.startswith(("http://", "https://")):
        raise ConfigError(f"--agent {url}: not an address; write http://HOST:9399")
    try:
        with urllib.request.urlopen(f"{url.rstrip('/')}/usage", timeout=SECONDS) as reply:  # noqa: S310 - checked above
            return usage.decode(orjson.loads(reply.read(LARGEST_ANSWER)))
    except urllib.error.HTTPError as error:
        said = error.read(1000).decode(errors="replace").strip()
        raise ConfigError(f"{url}: HTTP {error.code}: {said}") from error
    except (OSError, ValueError, WireError) as error:
        raise ConfigError(f"{url}: {getattr(error, 'reason', error)}; does the node's Neuron agent run?") from error
