"""Objects of a cluster as commands print them: those that are to be applied, and those that were removed."""

from __future__ import annotations

import base64
import sys
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

from hami_plugins.allocations.manifests.webhooks import WebhookTarget
from hami_plugins.cli.kit import output
from hami_plugins.cli.kit.edge import Exit
from hami_plugins.cli.kit.options import Form
from hami_plugins.cli.kit.service import file_text
from hami_plugins.errors import ConfigError
from hami_plugins.web.settings import ServedSettings


def target(settings: ServedSettings, *, url: str, ca_file: str | None) -> WebhookTarget:
    """Where the API server reaches the webhooks of a server, and what the object is called that says so.

    Raises ``ConfigError`` for a URL that no API server asks.
    """
    if url and not (url.startswith("https://") and urlsplit(url).hostname):
        raise ConfigError(f"--url {url}: an API server asks webhooks over https alone; write https://HOST:PORT")
    authority = "" if ca_file is None else base64.b64encode((file_text(ca_file) or "").encode()).decode()
    return WebhookTarget(
        configuration=settings.webhooks.configuration,
        service=settings.service.name,
        namespace=settings.service.namespace,
        port=settings.service.port,
        url=url,
        ca=authority,
    )


def print_documents(documents: Iterable[Mapping[str, Any]], form: Form) -> int:
    """Print objects to be applied."""
    listed = list(documents)
    if form is Form.JSON:
        whole = listed[0] if len(listed) == 1 else {"apiVersion": "v1", "kind": "List", "items": listed}
        output.document(whole, form)
        return Exit.FINE
    for document in listed:
        sys.stdout.write(f"---\n{output.as_yaml(document)}")
    return Exit.FINE


def print_removed(removed: Iterable[str], *, nothing: str, dry_run: bool) -> int:
    """Print each object as it is removed, or would be on a dry run; ``nothing`` where there is none."""
    count = 0
    for count, each in enumerate(removed, 1):  # noqa: B007 - the last one counts them
        output.line(f"{'would remove' if dry_run else 'removed'} {each}")
    if not count:
        output.line(nothing)
    return Exit.FINE
