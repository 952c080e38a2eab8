"""The work of the commands: files in, files or a report out."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from hami_plugins.cli.kit import inputs, output
from hami_plugins.cli.kit.edge import Exit
from hami_plugins.cli.kit.options import Form, ReportForm
from hami_plugins.errors import ManifestError
from hami_plugins.inputs import manifests
from hami_plugins.inputs.manifests import Document
from koordinator_adapter.commands.options import TranslateOptions
from koordinator_adapter.core import report
from koordinator_adapter.core.manifests import File, translated
from koordinator_adapter.core.translation.model import Fidelity, TranslationOptions
from koordinator_adapter.core.translation.reader import complete
from koordinator_adapter.core.translation.submission import submission

_FORMS = {ReportForm.JSON: Form.JSON, ReportForm.YAML: Form.YAML}
_TONES = {Fidelity.LOSSLESS: "dim", Fidelity.LOSSY: "warn", Fidelity.REFUSED: "bad"}


def translate(order: TranslateOptions, settings: TranslationOptions) -> int:
    """Translate, print or write, and say whether anything was lost."""
    files = order.files or ()
    if not files:
        raise ManifestError("nothing to translate; give manifests with -f FILE, a folder, or - for stdin")
    if order.in_place and inputs.STDIN in files:
        raise ManifestError("--in-place cannot be combined with - (stdin)")
    if order.in_place and order.submission:
        raise ManifestError("--submission cannot be combined with --in-place")
    documents = inputs.documents(files, recursive=order.recursive)
    if order.submission:
        documents = _submitted(documents)
    registry = complete(inputs.registry_of(inputs.settings_of(order.settings)))
    found = translated(documents, order.target, registry, settings, namespace=order.namespace or "default")
    if order.in_place:
        _write(found)
    elif order.report is None:
        _print(found)
    _tell(found, order)
    return Exit.FINDINGS if _fails(found, accept_loss=order.accept_loss) else Exit.FINE


def _submitted(documents: Sequence[Document]) -> tuple[Document, ...]:
    """Objects of a server as their authors would submit them again, in files of the same names."""
    texts: dict[str, str] = {}
    for each in documents:
        before = f"{texts[each.source]}---\n" if each.source in texts else ""
        texts[each.source] = before + output.as_yaml(submission(each.raw))
    return tuple(each for source, text in texts.items() for each in manifests.read(text, source=source))


def _fails(files: Sequence[File], *, accept_loss: bool) -> bool:
    worst = max((each.fidelity.rank for file in files for each in file.objects), default=0)
    return worst > (Fidelity.LOSSY.rank if accept_loss else Fidelity.LOSSLESS.rank)


def _write(files: Sequence[File]) -> None:
    """Changed files; one with something refused stays as it is, whole."""
    for file in files:
        if file.refused:
            output.remark(f"{file.source}: not written, because an object in it is refused")
        elif file.changed:
            output.into_file(Path(file.source), file.text)


def _print(files: Sequence[File]) -> None:
    texts = [file.text if file.text.endswith("\n") else f"{file.text}\n" for file in files]
    for at, text in enumerate(texts):
        separated = at and not text.startswith("---")
        sys.stdout.write(f"---\n{text}" if separated else text)


def _tell(files: Sequence[File], order: TranslateOptions) -> None:
    """The report on stdout if requested; together with manifests it goes to stderr."""
    if order.report in _FORMS:
        output.document(report.document(files, order.target), _FORMS[order.report])
        return
    for words, fidelity in report.lines(files):
        if order.report is ReportForm.TEXT:
            output.prose(words, _TONES[fidelity])
        else:
            output.remark(words)
    if order.report is ReportForm.TEXT or order.in_place:
        output.line(report.summary(files, order.target))
