"""The work of ``snapshot``: a cluster into one file that plan, explain and vet read elsewhere."""

from __future__ import annotations

import gzip
import sys
from datetime import UTC, datetime
from pathlib import Path

import orjson

from hami_plugins.cli.kit import inputs
from hami_plugins.cli.kit.edge import Exit
from hami_plugins.cli.kit.inputs import ClusterSource
from hami_plugins.cli.kit.options import Form
from hami_plugins.errors import ManifestError
from hami_plugins.inputs.snapshots import files as snapshot_file


def run(source: ClusterSource, *, redacted: bool, out: str | None, form: Form, settings: str | None) -> int:
    """Write the snapshot to a file or to stdout."""
    registry = inputs.registry_of(inputs.settings_of(settings))
    taken_at = datetime.now(tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    raws = (raw for raw, _ in inputs.objects(source))
    content = snapshot_file.document(
        raws, registry, taken_at=taken_at, redacted=redacted, complete=not source.snapshots
    )
    counts = _counts(content)
    if not counts.get("Node") and not counts.get("NodePool"):
        raise ManifestError(f"{source.words()}: it has no nodes, so there is nothing to take a snapshot of")
    if form is Form.YAML:
        from hami_plugins.cli.kit.output import as_yaml

        data = as_yaml(content).encode()
    else:
        data = orjson.dumps(content, option=orjson.OPT_APPEND_NEWLINE)
    if out is None or out == inputs.STDIN:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
        return Exit.FINE
    file = Path(out)
    file.write_bytes(gzip.compress(data, mtime=0) if file.suffix == ".gz" else data)
    words = ", ".join(f"{count} {kind}{'' if count == 1 else 's'}" for kind, count in counts.items())
    sys.stderr.write(f"{file}: {words}, {file.stat().st_size:,} bytes\n")
    return Exit.FINE


def print_kept(settings: str | None) -> int:
    """Print the words that a redacted snapshot keeps, by what they are."""
    from hami_plugins.inputs.snapshots.published import Published

    registry = inputs.registry_of(inputs.settings_of(settings))
    for section in Published(registry).sections():
        sys.stdout.write(f"{section.title}:\n")
        sys.stdout.writelines(f"  {word}\n" for word in section.words)
    return Exit.FINE


def _counts(content: dict[str, object]) -> dict[str, int]:
    counts: dict[str, int] = {}
    items = content["items"]
    for item in items if isinstance(items, list) else ():
        counts[str(item["kind"])] = counts.get(str(item["kind"]), 0) + 1
    return counts
