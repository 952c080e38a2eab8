"""What an embedded cluster needs of this machine, and what it keeps to itself."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import structlog

from hami_plugins.cli.live.processes import DemoProcess
from hami_plugins.cli.live.signals import DemoError

_PROXIES: Final = frozenset({"http_proxy", "https_proxy", "all_proxy"})


def stop_all(running: Sequence[DemoProcess]) -> None:
    """Ends processes, all at the same time."""
    for process in running:
        process.ask_to_stop()
    for process in running:
        process.stop()


@contextlib.contextmanager
def workplace() -> Iterator[Path]:
    """A directory for an embedded cluster, whose own logs are left out meanwhile; gone afterwards.

    Raises ``DemoError`` where no unix sockets can be made in it.
    """
    with quiet(), tempfile.TemporaryDirectory(prefix="hami-") as name:
        root = Path(name)
        _check_sockets(root)
        yield root


def _check_sockets(root: Path) -> None:
    """Raises ``DemoError`` where kubelets and agents could not talk."""
    path = root / "try.sock"
    try:
        with socket.socket(socket.AF_UNIX) as tried:
            tried.bind(str(path))
    except (AttributeError, OSError) as error:
        raise DemoError(
            f"{path}: no unix socket can be made there ({error}); set TMPDIR to a directory where one can"
        ) from error
    path.unlink()


@contextlib.contextmanager
def direct() -> Iterator[None]:
    """A client that is made meanwhile talks to this machine itself, whatever proxies the environment names."""
    proxies = {name: text for name, text in os.environ.items() if name.lower() in _PROXIES}
    for name in proxies:
        del os.environ[name]
    try:
        yield
    finally:
        os.environ.update(proxies)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """The embedded cluster's log would clutter the demo."""
    before = structlog.get_config() if structlog.is_configured() else None
    silence = logging.NullHandler()
    logging.getLogger().addHandler(silence)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    try:
        yield
    finally:
        structlog.reset_defaults()
        if before is not None:
            structlog.configure(**before)
        logging.getLogger().removeHandler(silence)
