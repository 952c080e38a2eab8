"""The update in which Koordinator's scheduler records the cards of a pod: what the containers read is added to it."""

from __future__ import annotations

from hami_plugins.errors import WireError
from hami_plugins.model.edits import made
from hami_plugins.wire import admission, pods
from hami_plugins.wire.admission_review import UNREADABLE, AdmissionRequest, Allowed, Answer, Denied
from koordinator_adapter.core import injection


def resolve(request: AdmissionRequest) -> Answer:
    """The answer to the change of a pod; a record that says no limits is not written, and the pod not bound."""
    if request.object is None:
        return Allowed()
    try:
        edits = injection.resolved(request.object, pods.pod(request.object))
    except WireError as error:
        return Denied(str(error), UNREADABLE)
    return Allowed(tuple(admission.patch(request.object, made(request.object, edits)))) if edits else Allowed()
