"""The findings of a simulation as one self-contained HTML page, in the frame of all pages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hami_plugins.output.page import frame
from hami_plugins.output.rows import Table
from neuron_topology.core.simulation import answers, chart
from neuron_topology.core.simulation.chart import Panel
from neuron_topology.core.simulation.comparison import PolicyResult, Study
from neuron_topology.core.simulation.jobs import Poisson
from neuron_topology.core.simulation.policies import SelectionPolicy


@dataclass(frozen=True, slots=True)
class SimulationTile:
    """A figure at the top, and where it leads."""

    figure: str
    words: str
    at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationSection:
    """One setting."""

    title: str
    words: str
    panels: tuple[Panel, ...]
    table: Table


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationPage:
    """Everything that the template shows."""

    title: str
    subtitle: str
    footer: str
    tiles: tuple[SimulationTile, ...]
    policies: tuple[SelectionPolicy, ...]
    sections: tuple[SimulationSection, ...]
    model: tuple[str, ...]


def render(study: Study, found: Sequence[Sequence[PolicyResult]], *, source: str, made_at: str) -> str:
    """The page; ``source`` and ``made_at`` are shown as they are."""
    page = SimulationPage(
        title="Simulation of Neuron device sets",
        subtitle=" · ".join(filter(None, (source, made_at))),
        footer=frame.FOOTER,
        tiles=tuple(_tiles(found)),
        policies=study.policies,
        sections=tuple(
            SimulationSection(
                title=answers.title(findings[0].setting),
                words=answers.effort(study, findings[0].setting),
                panels=chart.panels(findings),
                table=answers.table(findings),
            )
            for findings in found
        ),
        model=tuple(_model(study)),
    )
    return frame.rendered(
        page, "simulation.html.j2", package="neuron_topology.core.simulation", styles=["simulation.css"]
    )


def _tiles(found: Sequence[Sequence[PolicyResult]]) -> Iterator[SimulationTile]:
    for at, findings in enumerate(found):
        gained = answers.gain(findings)
        if gained is not None:
            figure, words = gained
            yield SimulationTile(figure, f"{words}: {answers.title(findings[0].setting)}", at)


def _model(study: Study) -> Iterator[str]:
    """What the figures hold for."""
    yield (
        "A job asks for devices of one node. A job that no node can hold immediately is rejected; no job waits. Of "
        "the nodes with a set for it, the one with the fewest free devices takes it."
    )
    drawn = [each.workload for each in study.settings if isinstance(each.workload, Poisson)]
    if drawn:
        durations = dict.fromkeys(f"mean {each.durations.mean:g} and sigma {each.durations.sigma:g}" for each in drawn)
        yield (
            "Jobs of a mix arrive independently of each other and last lognormal times "
            f"({'; '.join(durations)}). The jobs of run n come from seed {study.seed} + n."
        )
    yield (
        "Every policy gets the same jobs. ± is half of the 95 % confidence interval of the mean over runs; of a long "
        "trace, which is run once, over its parts."
    )
    yield (
        "Fragmentation rejects are jobs that are rejected although some node has enough free devices, as a share of "
        f"all jobs. The first {study.warm_up * 100:g} % of the jobs fill the cluster and are not counted."
    )
