"""The work of ``doctor``: a cluster in, findings out."""

from __future__ import annotations

from hami_plugins.cli import inputs, output
from hami_plugins.cli.edge import Exit
from hami_plugins.cli.inputs import Source
from hami_plugins.cli.options import Form
from hami_plugins.errors import ManifestError
from hami_plugins.kube.client import connect
from koordinator_adapter.doctor import diagnosis
from koordinator_adapter.doctor.evidence import Evidence
from koordinator_adapter.doctor.reading import COLLECTIONS, DUMP, Reader


def run(source: Source, *, form: Form) -> int:
    """Look, print, and say whether anything has to be done."""
    evidence = _dumped(source) if source.snapshots else _live(source)
    if not evidence.machines:
        raise ManifestError(f"{source.words()}: there is no node in it; a dump is made with: {DUMP}")
    found = diagnosis.diagnosed(evidence)
    if form is not Form.TABLE:
        output.document(diagnosis.document(found), form)
    else:
        for line in diagnosis.lines(found):
            output.line(line.words, line.tone)
    return Exit.FINE if found.healthy else Exit.FINDINGS


def _dumped(source: Source) -> Evidence:
    reader = Reader()
    for raw, _ in inputs.objects(source):
        reader.feed(raw)
    return reader.finish()


def _live(source: Source) -> Evidence:
    cluster = connect(kubeconfig=source.kubeconfig, context=source.context)
    reader = Reader()
    with inputs.counting() as seen:
        for collection in COLLECTIONS:
            for page in cluster.pages(collection):
                reader.looked_at(collection.kind)
                for raw in page:
                    reader.feed(raw)
                if seen is not None:
                    seen(collection.kind, len(page))
    return reader.finish()
