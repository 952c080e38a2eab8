"""What holds an object's pods back before any scheduler looks: Kueue, and suspension."""

from __future__ import annotations

from hami_plugins.inputs.workloads.runs import SubmittedObject
from hami_plugins.wire.scheduling_gates import KUEUE_LABEL


def notes(it: SubmittedObject) -> tuple[str, ...]:
    """That Kueue has to admit the object first (by its label), or that it is suspended.

    A pod that has scheduling gates is not planned as if admitted: the plan itself names its gates.
    """
    if it.kind == "Pod" and it.field.inner("spec").members.get("schedulingGates"):
        return ()
    queue = it.labels.get(KUEUE_LABEL, "")
    if queue:
        return (
            f"Kueue holds it back until LocalQueue {queue} admits it; Kueue's quota is not looked at, and it is "
            "planned as if admitted",
        )
    spec = it.field.inner("spec")
    if spec.members.get("suspend") is True or spec.inner("runPolicy").members.get("suspend") is True:
        return ("it is suspended, so that its controller makes no pods before that ends; planned as if it had",)
    return ()
