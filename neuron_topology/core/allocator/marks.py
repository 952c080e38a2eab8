"""What the webhook on new pods does: marks those that ask for Neuron devices or cores, whatever their scheduler."""

from __future__ import annotations

from typing import Final

from hami_plugins.engine.intake import Rules, take_in
from hami_plugins.engine.registry import Registry
from hami_plugins.errors import WireError
from hami_plugins.model.vendor import AdmissionChange
from hami_plugins.wire import admission, pods
from hami_plugins.wire.admission_review import Allowed, Answer, Denied
from hami_plugins.wire.fields import Json
from neuron_topology.core import capacity_block_end
from neuron_topology.core.allocator.names import MARKED, MARKER_KEY
from neuron_topology.core.foreign_allocations import asked_by
from neuron_topology.core.vendor import SPEC

_UNREADABLE: Final = 422
_SENSELESS: Final = 400


def mark(raw: Json, rules: Rules) -> Answer:
    """The answer to the creation of a pod. A request that could never be allocated anywhere is refused at once."""
    try:
        pod = pods.pod(raw)
        if not any(asked_by(SPEC, each) for each in pod.containers):
            return Allowed()
        marked = admission.applied(raw, [(None, AdmissionChange("annotation", MARKER_KEY, MARKED))])
        intake = take_in(pods.pod(marked), Registry([SPEC]), rules)
    except WireError as error:
        return Denied(str(error), _UNREADABLE)
    if wrong := capacity_block_end.wrong(pod.annotations):
        return Denied(wrong, _SENSELESS)
    if intake.refusal:
        return Denied(intake.refusal, _SENSELESS if intake.admission.allowed else intake.admission.code)
    return Allowed(admission.patch(raw, marked))
