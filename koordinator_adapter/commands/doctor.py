"""The work of ``doctor``: a cluster in, findings out."""

from __future__ import annotations

from hami_plugins.cli.kit import inputs, output
from hami_plugins.cli.kit.edge import Exit
from hami_plugins.cli.kit.inputs import ClusterSource
from hami_plugins.cli.kit.options import Form
from hami_plugins.errors import ManifestError
from hami_plugins.kube.client import connect
from koordinator_adapter.commands.doctor_evidence import COLLECTIONS, DUMP, Reader
from koordinator_adapter.core.doctor import diagnosis
from koordinator_adapter.core.doctor.evidence import Evidence


def run(source: ClusterSource, *, form: Form) -> int:
    """Look, print, and say whether anything has to be done."""
    evidence = _dumped(source) if source.snapshots else _live(source)
    if not evidence.machines:
        raise ManifestError(f"{source.words()}: it contains no node; create a dump with: {DUMP}")
    found = diagnosis.diagnosed(evidence)
    if form is not Form.TABLE:
        output.document(diagnosis.document(found), form)
    else:
        for line in diagnosis.lines(found):
            output.line(line.words, line.tone)
    return Exit.FINE if found.healthy else Exit.FINDINGS


def _dumped(source: ClusterSource) -> Evidence:
    reader = Reader()
    for raw, _ in inputs.objects(source):
        reader.feed(raw)
    return reader.finish()


def _live(source: ClusterSource) -> Evidence:
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
