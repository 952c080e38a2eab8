"""The commands that several servers have, with their options and help. The work is imported when it runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

import typer

from hami_plugins.cli.kit import options

if TYPE_CHECKING:
    from hami_plugins.cli.kit.server_inputs import ServerInputs


def verify(
    url: options.ServerUrl,
    *,
    wait: options.Wait = 0.0,
) -> None:
    """Check whether the server answers, and print what it waits for otherwise. Reads only."""
    from hami_plugins.cli.kit import probe

    raise typer.Exit(probe.verify(url, patience=wait))


def trust_command(
    inputs: Callable[..., ServerInputs[Any]], *kinds: Literal["mutating", "validating"]
) -> Callable[..., None]:
    """The command ``trust`` of a server, which has webhook configurations of these kinds."""

    def trust(
        *,
        wait: options.Patience = 0.0,
        config: options.Config = None,
        context: options.Context = None,
        kubeconfig: options.Kubeconfig = None,
    ) -> None:
        """Have the API server trust the certificates that the server makes (certificate: {bootstrap: true}).

        The server itself may not write webhook configurations, because that right allows changes to any pod. Run this
        after `webhooks` was applied and after each change of it; the chart does so at install and upgrade. A new
        authority is made when the newest one has a third of its ten years left.

        Writes: the authorities (caBundle) in the server's webhook configurations, and its Secret.
        """
        from hami_plugins.cli.kit.trust import run

        given = inputs(config=config, context=context, kubeconfig=kubeconfig)
        raise typer.Exit(run(given.client(), given.settings(), kinds, patience=wait))

    return trust
