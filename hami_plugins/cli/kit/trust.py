"""The command that has API servers trust the certificates which a server of ours makes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Final, Literal

from hami_plugins.cli.kit import output
from hami_plugins.cli.kit.edge import Exit
from hami_plugins.errors import ConfigError, KubeError
from hami_plugins.kube.port import KubeApi
from hami_plugins.web.bootstrap import SecretName, WebhookConfiguration, establish
from hami_plugins.web.settings import ServedSettings

LOOK_SECONDS: Final = 1.0


def run(
    api: KubeApi,
    settings: ServedSettings,
    kinds: Iterable[Literal["mutating", "validating"]],
    *,
    patience: float,
    sleep: Callable[[float], None] = time.sleep,
) -> int:
    """Make the configurations of these kinds trust the server's authorities; tried again for ``patience`` seconds.

    Raises ``ConfigError`` where the server does not make its certificates, ``KubeError`` where it did not work.
    """
    if not settings.certificate.bootstrap:
        raise ConfigError("certificate.bootstrap is false: another program makes the certificates and what trusts them")
    secret = SecretName(settings.service.namespace, settings.certificate.secret)
    configurations = [WebhookConfiguration(kind, settings.webhooks.configuration) for kind in kinds]
    waited, changed = 0.0, None
    while changed is None:
        try:
            changed = establish(api, secret, settings.certified_names, configurations)
        except KubeError:
            if waited >= patience:
                raise
            sleep(LOOK_SECONDS)
            waited += LOOK_SECONDS
    for each in configurations:
        output.line(f"{each} {'trusts' if each in changed else 'already trusts'} the authorities in secret {secret}")
    return Exit.FINE
