"""What is to be simulated, as people write it: a study as YAML, a trace of jobs as CSV."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Final, NamedTuple

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, field_validator

from hami_plugins.config import texts
from hami_plugins.errors import ConfigError
from neuron_topology.core.hardware.instances import INSTANCE_TYPES, InstanceType
from neuron_topology.core.simulation.comparison import SimulationSetting, Study
from neuron_topology.core.simulation.jobs import MIXES, Durations, Mix, Poisson, SimulatedJob, Trace, Workload
from neuron_topology.core.simulation.policies import SelectionPolicy

COLUMNS: Final = ("arrival", "devices", "duration")
"""Columns of a trace; others are passed over."""


LONGEST: Final = 1e15
"""A larger time of a trace is none: sums of such would be lost in the digits of a number."""


def _listed(value: Any) -> Any:
    return value if isinstance(value, list | tuple) else [value]


def _some(value: tuple[SelectionPolicy, ...]) -> tuple[SelectionPolicy, ...]:
    """Refuses none at all, once each of them is known to be one."""
    if not value:
        raise ValueError(f"not a policy; choose from {', '.join(SelectionPolicy)}")
    return value


Weight = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Devices = Annotated[int, Field(ge=1)]
Several = BeforeValidator(_listed)


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class _Durations(_Strict):
    mean: float = Field(default=1.0, gt=0)
    sigma: float = Field(default=1.0, ge=0, le=5)


class StudyFile(_Strict):
    """A study as it is written. ``nodes`` and ``loads`` may be one or several: every combination is a setting.

    ``mixes`` are shares of jobs by the number of requested devices, in addition to those of the pack; ``only`` names
    the mixes to be run, by default those of the file, else those of the pack.
    """

    instance: str = "trn1.32xlarge"
    nodes: Annotated[tuple[Annotated[int, Field(ge=1, le=10_000)], ...], Several] = (8,)
    loads: Annotated[tuple[Annotated[float, Field(gt=0, le=100)], ...], Several] = (0.9,)
    mixes: dict[str, Annotated[dict[Devices, Weight], Field(min_length=1)]] = {}
    only: tuple[str, ...] = ()
    durations: _Durations = _Durations()
    policies: Annotated[tuple[SelectionPolicy, ...], AfterValidator(_some)] = tuple(SelectionPolicy)
    jobs: int = Field(default=20_000, ge=100, le=10_000_000)
    runs: int = Field(default=10, ge=2, le=10_000)
    seed: int = Field(default=0, ge=0)

    @field_validator("instance")
    @classmethod
    def _is_known(cls, found: str) -> str:
        if found not in INSTANCE_TYPES:
            raise ValueError(f"not an instance type; choose from {', '.join(INSTANCE_TYPES)}")
        return found

    @property
    def machine(self) -> InstanceType:
        """The instance type of every node."""
        return INSTANCE_TYPES[self.instance]


def order(raw: Mapping[str, Any], source: str) -> StudyFile:
    """An order from the members of a file and the words of the command line.

    Raises ``ConfigError`` with the path, the value and what is allowed.
    """
    try:
        return StudyFile.model_validate(raw)
    except ValidationError as error:
        raise ConfigError("\n".join(f"{source}: {line}" for line in texts.complaints(error, StudyFile))) from error


def study(wanted: StudyFile, source: str, traces: tuple[Trace, ...] = ()) -> Study:
    """The requested study: the traces, and the mixes if any is named or there are none of the former."""
    workloads: list[Workload] = [
        Poisson(mix, load, wanted.jobs, Durations(wanted.durations.mean, wanted.durations.sigma))
        for mix in _mixes(wanted, source, traces)
        for load in wanted.loads
    ]
    return Study(
        settings=tuple(
            SimulationSetting(instance=wanted.machine, nodes=nodes, workload=workload)
            for workload in (*traces, *workloads)
            for nodes in wanted.nodes
        ),
        policies=tuple(dict.fromkeys(wanted.policies)),
        runs=wanted.runs,
        seed=wanted.seed,
    )


def _mixes(wanted: StudyFile, source: str, traces: tuple[Trace, ...]) -> Iterator[Mix]:
    own = {name: Mix(name, tuple(sorted(shares.items()))) for name, shares in wanted.mixes.items()}
    known = {**MIXES, **own}
    for name in dict.fromkeys(wanted.only or own or (() if traces else MIXES)):
        if name not in known:
            raise ConfigError(f"{source}: no mix is called {name}; there are {', '.join(known)}")
        devices = wanted.machine.devices
        if max(known[name].devices) > devices:
            raise ConfigError(
                f"{source}: mix {name}: jobs of {max(known[name].devices)} devices fit on no {wanted.instance}, "
                f"which has {devices}; take a larger instance type or smaller jobs"
            )
        yield known[name]


class TraceRead(NamedTuple):
    """A trace, and a sentence for each line that is left out of it."""

    trace: Trace
    problems: tuple[str, ...]


def trace(text: str, source: str, machine: InstanceType) -> TraceRead:
    """The jobs of a CSV file: its first line names the columns, each further one is a job.

    Times are numbers in any one unit, or ISO 8601 for arrivals with durations in seconds. Raises ``ConfigError`` for a
    file of which no trace can be made.
    """
    lines = csv.DictReader(text.splitlines(), skipinitialspace=True)
    missing = [name for name in COLUMNS if name not in (lines.fieldnames or ())]
    if missing:
        raise ConfigError(f"{source}: line 1: no column {', '.join(missing)}; name {', '.join(COLUMNS)} there")
    jobs: list[SimulatedJob] = []
    problems: list[str] = []
    for row in lines:
        try:
            jobs.append(_job(row, machine))
        except ValueError as error:
            problems.append(f"{source}: line {lines.line_num}: {error}; this job is left out")
    jobs.sort()
    if len({job.arrival for job in jobs[len(jobs) // 10 :]}) < 2:
        raise ConfigError(
            "\n".join([*problems[:3], f"{source}: too few jobs ({len(jobs)}): at least two have to arrive apart"])
        )
    return TraceRead(Trace(source, tuple(jobs)), tuple(problems))


def _job(row: Mapping[str, str | None], machine: InstanceType) -> SimulatedJob:
    arrival = _number("arrival", row, dates=True)
    devices = _number("devices", row)
    duration = _number("duration", row)
    if devices != int(devices) or devices < 1:
        raise ValueError(f"devices: not a number of devices (found {row['devices']!r})")
    if devices > machine.devices:
        raise ValueError(f"devices: {int(devices)} fit on no {machine.name}, which has {machine.devices}")
    if duration < 0:
        raise ValueError(f"duration: negative (found {row['duration']!r})")
    return SimulatedJob(arrival, int(devices), duration)


def _number(name: str, row: Mapping[str, str | None], *, dates: bool = False) -> float:
    text = (row[name] or "").strip()
    try:
        found = float(text)
    except ValueError:
        found = _instant(text) if dates else math.nan
    if not abs(found) <= LONGEST:
        raise ValueError(f"{name}: not a number{' or a date with time' if dates else ''} (found {texts.short(text)})")
    return found


def _instant(text: str) -> float:
    """Seconds since 1970; a time without a zone is taken as UTC."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return math.nan
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
