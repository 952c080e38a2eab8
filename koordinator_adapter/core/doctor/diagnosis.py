"""All checks on one cluster, and what could not be looked at."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Literal, NamedTuple

from typing_extensions import TypedDict

from hami_plugins.output.rows import TextLine
from hami_plugins.output.schema import API_VERSION
from koordinator_adapter.core.doctor import components, limits, nodes, pods
from koordinator_adapter.core.doctor.evidence import DoctorFinding, DoctorSeverity, Evidence

CHECKS: Final = (*components.CHECKS, *limits.CHECKS, *nodes.CHECKS, *pods.CHECKS)

_NEEDED: Final[Mapping[str, str]] = {
    "Device": "cards and whether they are counted",
    "DaemonSet": "koordlet, device plugins and HAMi-core's library",
    "Deployment": "the gates of koord-manager",
    "ConfigMap": "colocation and the profiles of the scheduler",
    "Namespace": "namespaces that Koordinator's webhook leaves out",
    "MutatingWebhookConfiguration": "webhooks and their order",
}
"""What cannot be looked at without a kind of object."""

_TONES: Final = {DoctorSeverity.ERROR: "bad", DoctorSeverity.WARNING: "warn", DoctorSeverity.NOTE: "dim"}


class DiagnosisFindingDocument(TypedDict):
    """One thing that is wrong."""

    check: str
    severity: Literal["error", "warning", "note"]
    about: str
    """The object, as ``kind/name`` or ``kind/namespace/name``."""
    words: str
    fix: str
    """The command that fixes it; what follows ``#`` is for people."""


class DiagnosisDocument(TypedDict):
    """The answer of ``hami-plugins koordinator doctor``."""

    apiVersion: str
    kind: Literal["Diagnosis"]
    findings: list[DiagnosisFindingDocument]
    notLookedAt: list[str]
    """Kinds that the listing lacks, whose state is therefore unknown."""


class Diagnosis(NamedTuple):
    """The findings, the worst first, and the checks that could not run."""

    findings: tuple[DoctorFinding, ...]
    unseen: tuple[str, ...]

    @property
    def healthy(self) -> bool:
        """Whether nothing has to be done."""
        return all(each.severity is DoctorSeverity.NOTE for each in self.findings)


def diagnosed(evidence: Evidence) -> Diagnosis:
    """Every check on one cluster."""
    found = [finding for check in CHECKS for finding in check(evidence)]
    order = list(DoctorSeverity)
    unseen = tuple(f"{what} (no {kind} in the listing)" for kind, what in _NEEDED.items() if kind not in evidence.kinds)
    return Diagnosis(tuple(sorted(found, key=lambda each: order.index(each.severity))), unseen)


def lines(diagnosis: Diagnosis) -> Iterator[TextLine]:
    """What is wrong in words, each thing followed by its command, then how much of it."""
    for each in diagnosis.findings:
        yield TextLine(f"{each.severity}: {each.about}: {each.words}", _TONES[each.severity])
        if each.fix:
            yield TextLine(f"    {each.fix}")
    for what in diagnosis.unseen:
        yield TextLine(f"not looked at: {what}", "dim")
    fine = "nothing is wrong in what was looked at" if diagnosis.unseen else "nothing is wrong"
    yield TextLine(_summary(diagnosis.findings) or fine, "good" if diagnosis.healthy else "bad")


def document(diagnosis: Diagnosis) -> DiagnosisDocument:
    """The same as a document."""
    return {
        "apiVersion": API_VERSION,
        "kind": "Diagnosis",
        "findings": [
            {
                "check": each.check,
                "severity": each.severity.value,
                "about": each.about,
                "words": each.words,
                "fix": each.fix,
            }
            for each in diagnosis.findings
        ],
        "notLookedAt": list(diagnosis.unseen),
    }


def _summary(findings: Iterable[DoctorFinding]) -> str:
    counted = dict.fromkeys(DoctorSeverity, 0)
    for each in findings:
        counted[each.severity] += 1
    told = [f"{count} {severity}{'' if count == 1 else 's'}" for severity, count in counted.items() if count]
    return ", ".join(told)
