"""The work of ``neuron patch``: read manifests, patch the Volcano Jobs in them, print what they are then."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from typing import NamedTuple

from hami_plugins.cli.kit import inputs, output
from hami_plugins.cli.kit.edge import Exit
from hami_plugins.cli.kit.inputs import cluster_source
from hami_plugins.cli.kit.options import Form
from hami_plugins.errors import ManifestError, WireError
from hami_plugins.inputs import manifests
from hami_plugins.inputs.manifests import Document, rewriter
from hami_plugins.model import edits
from hami_plugins.model.edits import PutEdit
from hami_plugins.wire.fields import Json
from neuron_topology.commands import hypernodes
from neuron_topology.commands.hypernodes import HyperNodesOptions
from neuron_topology.commands.options import PatchOptions
from neuron_topology.core.jobs import messages, patch
from neuron_topology.core.jobs.demands import DemandRemark
from neuron_topology.core.jobs.patch import JobDefaults
from neuron_topology.core.jobs.templates import TemplateChange


class _Outcome(NamedTuple):
    document: Document
    after: Json
    changes: tuple[TemplateChange, ...] = ()
    remarks: tuple[DemandRemark, ...] = ()
    fault: str = ""


def run(order: PatchOptions) -> int:
    """Print every object, the Volcano Jobs patched, and on stderr what was done; a job with a fault stays as it is."""
    defaults = _defaults(order)
    if not order.files:
        raise ManifestError("nothing to patch; give manifests with -f FILE, a folder, or - for stdin")
    documents = inputs.documents(order.files, recursive=order.recursive)
    if not documents:
        raise ManifestError(f"{', '.join(order.files)}: no object; did the command before this one print a job?")
    outcomes = [_patched(each, defaults) for each in documents]
    for outcome in outcomes:
        for sentence in messages.sentences((*outcome.changes, *outcome.remarks)):
            output.remark(sentence)
        if outcome.fault:
            output.remark(f"unchanged: {outcome.fault}")
    faulty = any(outcome.fault for outcome in outcomes)
    if order.check:
        return Exit.FINDINGS if faulty or any(outcome.changes for outcome in outcomes) else Exit.FINE
    _print(outcomes, Form(order.form))
    return Exit.FINDINGS if faulty else Exit.FINE


def _defaults(order: PatchOptions) -> JobDefaults:
    """The options, and the cluster's nodes if one is named."""
    defaults = order.job.read()
    source = cluster_source(order.snapshot, None, order.context, order.kubeconfig)
    if not order.ordered and not source.named:
        return defaults
    network = hypernodes.network(HyperNodesOptions(source=source), ordered=order.ordered)
    node_order = network.node_order if order.ordered else ()
    return replace(
        defaults,
        known=network.tiers,
        applied=network.applied,
        kept=network.kept,
        rooms=network.rooms,
        node_order=node_order,
    )


def _patched(document: Document, defaults: JobDefaults) -> _Outcome:
    before = dict(document.raw)
    if not patch.is_job(before):
        return _Outcome(document, before)
    metadata = before.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    try:
        found = patch.patch(before, defaults, place=f"job {name or '?'}:")
    except WireError as error:
        return _Outcome(document, before, fault=f"{document.source}:{document.line}: {error}")
    return _Outcome(document, found.job, found.changes, found.remarks)


def _print(outcomes: Sequence[_Outcome], form: Form) -> None:
    if form is Form.JSON:
        items = [outcome.after for outcome in outcomes]
        content = items[0] if len(items) == 1 else {"apiVersion": "v1", "kind": "List", "items": items}
        output.document(content, form)
        return
    for number, (_, group) in enumerate(groupby(outcomes, key=lambda outcome: id(outcome.document.file))):
        text = _of_file(tuple(group))
        divided = number == 0 or text.startswith("---")
        sys.stdout.write(text if divided else f"---\n{text}")


def _of_file(outcomes: Sequence[_Outcome]) -> str:
    """The file's text with the changes in it; a document that cannot be changed in place is written anew."""
    file = outcomes[0].document.file
    tops = {each.number: each.raw for each in manifests.mappings(file.text, source=file.source)}
    changed: dict[int, Json] = {}
    for document, after, changes, *_ in outcomes:
        if changes:
            top = changed.get(document.number) or tops[document.number]
            changed[document.number] = edits.made(top, [PutEdit(document.base, after)]) if document.base else after
    found = rewriter.rewritten(file.text, {number: [top] for number, top in changed.items()})
    for number in found.anew:
        without = "without its comments" if number in found.commented else "in another style"
        output.remark(f"{file.source} document {number}: rewritten, {without}")
    return found.text.lstrip("\n")
