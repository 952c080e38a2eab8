"""Whether a server of ours answers, asked as an operator or a test of a release asks it."""

from __future__ import annotations

import time
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Final

from hami_plugins.cli.kit import output
from hami_plugins.cli.kit.edge import Exit
from hami_plugins.errors import ConfigError

ANSWER_SECONDS: Final = 5.0
LOOK_SECONDS: Final = 1.0


def complaint(url: str) -> str:
    """Why the server does not answer there; empty where it does.

    Raises ``ConfigError`` for an invalid server address.
    """
    if not url.startswith(("http://", "https://")):
        raise ConfigError(f"{url}: not a server address; write http://NAME.NAMESPACE.svc:PORT")
    try:
        with urllib.request.urlopen(f"{url.rstrip('/')}/readyz", timeout=ANSWER_SECONDS):  # noqa: S310 - an operator's
            return ""
    except urllib.error.HTTPError as error:
        return f"{url}: not ready: {error.read().decode(errors='replace').strip()}"
    except (OSError, ValueError) as error:
        return f"{url}: {getattr(error, 'reason', error)}; is a replica ready, and does a policy let this through?"


def verify(url: str, *, patience: float, sleep: Callable[[float], None] = time.sleep) -> int:
    """Ask until the server answers or ``patience`` seconds have passed, and print which it was.

    Raises ``ConfigError`` for an invalid server address.
    """
    waited = 0.0
    while (why := complaint(url)) and waited < patience:
        sleep(LOOK_SECONDS)
        waited += LOOK_SECONDS
    output.line(why or f"{url}: answers", "bad" if why else "")
    return Exit.FINDINGS if why else Exit.FINE
