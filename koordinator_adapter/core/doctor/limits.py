"""Checks of limits that the adapter's own server is to set."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from koordinator_adapter.core.doctor.evidence import DoctorFinding, DoctorSeverity, Evidence
from koordinator_adapter.core.webhooks import RECORDS_WEBHOOK

_NEVER: Final = "never"


def records(evidence: Evidence) -> Iterator[DoctorFinding]:
    """Containers that take their limits from annotations need the webhook that writes these when cards are recorded."""
    if "MutatingWebhookConfiguration" not in evidence.kinds:
        return
    if any(each.name == RECORDS_WEBHOOK for each in evidence.hooks):
        return
    for place, mode in sorted(evidence.injections.items()):
        if mode == _NEVER:
            continue
        namespace, _, name = place.partition("/")
        yield DoctorFinding(
            check="limits-webhook",
            severity=DoctorSeverity.ERROR,
            about=f"configmap/{place}",
            words=f"says injection.mode: {mode}, and the webhook {RECORDS_WEBHOOK} is missing: the limits of pods that "
            "wait for them are not written, and their containers see no card",
            fix=f"kubectl -n {namespace} get configmap {name} -o jsonpath='{{.data.settings\\.yaml}}' > settings.yaml "
            "&& hami-plugins koordinator webhooks --config settings.yaml | kubectl apply -f -",
        )
        return


CHECKS: Final = (records,)
