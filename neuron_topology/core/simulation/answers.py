"""The findings of a simulation in words, as tables, and as a document."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Literal

from typing_extensions import TypedDict

from hami_plugins.explain.messages import counted
from hami_plugins.output.rows import Table, TableRow
from hami_plugins.output.schema import API_VERSION
from neuron_topology.core.simulation.comparison import PolicyResult, SimulationSetting, Study
from neuron_topology.core.simulation.estimates import Estimate
from neuron_topology.core.simulation.jobs import Poisson
from neuron_topology.core.simulation.policies import SelectionPolicy

FRAG_REJECTS: Final = "fragmentation rejects"


class EstimateDocument(TypedDict):
    """A mean over runs, or over parts of a trace, from 0 to 1."""

    mean: float
    halfWidth: float | None
    """Of the 95 % confidence interval; null for a short trace."""
    runs: int
    """The runs, or parts of a trace, that say something about it."""


class SimulatedPolicyDocument(TypedDict):
    """How one policy does."""

    policy: str
    utilisation: EstimateDocument
    """Devices in use, averaged over time."""
    fragRejects: EstimateDocument
    """Share of all jobs that are rejected although some node has enough free devices."""
    acceptance: EstimateDocument
    """Share of all jobs that are accepted."""
    acceptanceOf: dict[str, EstimateDocument]
    """The same of the jobs of each size."""


class WorkloadDocument(TypedDict):
    """The jobs: drawn from a mix, or from a trace."""

    kind: Literal["mix", "trace"]
    name: str
    jobs: int
    load: float | None
    shares: dict[str, float]
    durationMean: float | None
    durationSigma: float | None


class SimulatedSettingDocument(TypedDict):
    """A cluster and its jobs, and what each policy makes of them."""

    workload: WorkloadDocument
    instance: str
    nodes: int
    devicesPerNode: int
    runs: int
    policies: list[SimulatedPolicyDocument]


class SimulationDocument(TypedDict):
    """Everything that was simulated."""

    apiVersion: Literal["hami-plugins.io/v1alpha1"]
    kind: Literal["NeuronSimulation"]
    seed: int
    warmUp: float
    settings: list[SimulatedSettingDocument]


def title(setting: SimulationSetting) -> str:
    """A setting in a few words."""
    workload = setting.workload
    cluster = f"{setting.nodes:,} x {setting.instance.name}"
    if isinstance(workload, Poisson):
        return f"{workload.mix.name}, {cluster}, load {workload.load:g}"
    return f"{workload.name}, {cluster}"


def effort(study: Study, setting: SimulationSetting) -> str:
    """What a setting's figures rest on, and what they are in."""
    workload = setting.workload
    if isinstance(workload, Poisson):
        return f"per cent, ± half of the 95 % interval; {study.runs_of(setting)} runs of {workload.count:,} jobs"
    jobs = counted(len(workload.jobs), "job")
    parts = study.parts_of(setting)
    if parts == 1:
        return f"per cent; one run of {jobs}, too few for intervals"
    return f"per cent, ± half of the 95 % interval; one run of {jobs}, in {parts} parts"


def measures(finding: PolicyResult) -> dict[str, Estimate]:
    """The results of a policy by their names, in the order in which they are shown."""
    return {
        "utilisation": finding.utilisation,
        FRAG_REJECTS: finding.frag_rejects,
        "accepted": finding.acceptance,
        **{f"accepted of {size}": found for size, found in finding.acceptance_of.items()},
    }


def percent(estimate: Estimate) -> str:
    """A share in per cent with its interval, both to the same digits."""
    if estimate.half_width is None:
        return f"{estimate.mean * 100:.2f} %"
    return f"{estimate.mean * 100:.2f} ±{estimate.half_width * 100:.2f} %"


def table(findings: Sequence[PolicyResult]) -> Table:
    """A row per policy of one setting, in per cent."""
    return Table(
        columns=(
            "POLICY",
            "UTILISED",
            "FRAG REJECTS",
            "ACCEPTED",
            *(f"OF {size}" for size in findings[0].acceptance_of),
        ),
        rows=tuple(
            TableRow((each.policy.value, *(percent(found).removesuffix(" %") for found in measures(each).values())))
            for each in findings
        ),
        whole=frozenset({0}),
    )


def gain(findings: Sequence[PolicyResult]) -> tuple[str, str] | None:
    """How many more jobs ``aws`` rejects for fragments than ``linked``: a figure and its words; none without both.

    Where ``linked`` may reject none at all, the figure is what the two intervals leave at least, and none below 1.
    """
    by_policy = {each.policy: each.frag_rejects for each in findings}
    aws, linked = by_policy.get(SelectionPolicy.AWS), by_policy.get(SelectionPolicy.LINKED)
    if aws is None or linked is None or not aws.mean:
        return None
    if not linked.mean:
        return "no job", f"rejected for fragments by linked, {percent(aws)} by aws"
    words = f"as many jobs rejected for fragments by aws ({percent(aws)}) as by linked ({percent(linked)})"
    if linked.low > 0:
        return f"{aws.mean / linked.mean:.1f}x", words
    least = aws.low / linked.high
    return (f"at least {least:.1f}x", words) if least >= 1 else None


def document(study: Study, found: Iterable[Sequence[PolicyResult]]) -> SimulationDocument:
    """Everything, with the settings in their order."""
    return {
        "apiVersion": API_VERSION,
        "kind": "NeuronSimulation",
        "seed": study.seed,
        "warmUp": study.warm_up,
        "settings": [_setting(study, findings) for findings in found],
    }


def _setting(study: Study, findings: Sequence[PolicyResult]) -> SimulatedSettingDocument:
    setting = findings[0].setting
    return {
        "workload": _workload(setting),
        "instance": setting.instance.name,
        "nodes": setting.nodes,
        "devicesPerNode": setting.instance.devices,
        "runs": study.runs_of(setting),
        "policies": [
            {
                "policy": each.policy.value,
                "utilisation": _estimate(each.utilisation),
                "fragRejects": _estimate(each.frag_rejects),
                "acceptance": _estimate(each.acceptance),
                "acceptanceOf": {str(size): _estimate(found) for size, found in each.acceptance_of.items()},
            }
            for each in findings
        ],
    }


def _workload(setting: SimulationSetting) -> WorkloadDocument:
    workload = setting.workload
    drawn = workload if isinstance(workload, Poisson) else None
    return {
        "kind": "trace" if drawn is None else "mix",
        "name": workload.mix.name if isinstance(workload, Poisson) else workload.name,
        "jobs": workload.count if isinstance(workload, Poisson) else len(workload.jobs),
        "load": None if drawn is None else drawn.load,
        "shares": {} if drawn is None else {str(size): share for size, share in drawn.mix.shares},
        "durationMean": None if drawn is None else drawn.durations.mean,
        "durationSigma": None if drawn is None else drawn.durations.sigma,
    }


def _estimate(found: Estimate) -> EstimateDocument:
    return {"mean": found.mean, "halfWidth": found.half_width, "runs": found.runs}
