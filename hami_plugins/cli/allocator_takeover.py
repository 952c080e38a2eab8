"""The commands of the allocator for a cluster in which HAMi runs: its settings in ours, and what is in the way."""

from __future__ import annotations

import sys
from typing import Any

from hami_plugins.allocator.shared_settings import SETTINGS
from hami_plugins.cli.kit import allocator, output
from hami_plugins.cli.kit.edge import Exit
from hami_plugins.cli.kit.options import Form
from hami_plugins.config import hami_words, texts


def print_settings(values: str | None, device_config: str | None, *, form: Form) -> int:
    """Print the settings that HAMi's own files amount to, and on stderr each word that is not among them.

    Raises ``ConfigError`` for a word whose value the allocator refuses.
    """
    source, given = _document(values)
    place, devices = _document(device_config)
    found = hami_words.from_values(given, texts.unwrapped(devices, hami_words.DEVICE_CONFIG, place), source=source)
    text = output.as_yaml(found.settings)
    SETTINGS.load(text, {})
    for word in found.untaken:
        output.remark(f"{word.path}: {word.why}")
    if form is Form.JSON:
        output.document(found.settings, form)
    else:
        sys.stdout.write(text)
    return Exit.FINE


def _document(path: str | None) -> tuple[str, dict[str, Any]]:
    return ("", {}) if path is None else allocator.read_document(path)
