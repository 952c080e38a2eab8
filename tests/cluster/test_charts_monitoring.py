"""Alerts and dashboards: Prometheus understands every query, and what the processes really say answers it."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster.monitored import MINUTES, MONITORED, Monitored

EVERY = pytest.mark.parametrize("name", MONITORED)


def promtool(programs: Mapping[str, Path], chart: Monitored, folder: Path, *tests: Mapping[str, Any]) -> None:
    file = folder / "tests.yaml"
    told = {"rule_files": [str(chart.alerts)], "evaluation_interval": "1m", "tests": list(tests)}
    file.write_text(yaml.safe_dump(told))
    done = subprocess.run([programs["promtool"], "test", "rules", file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@EVERY
def test_prometheus_understands_the_alerts(programs: Mapping[str, Path], name: str) -> None:
    command = [str(programs["promtool"]), "check", "rules", "--lint-fatal", str(MONITORED[name].alerts)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("name", "alert"), [(name, rule["alert"]) for name, chart in MONITORED.items() for rule in chart.rules()]
)
def test_an_alert_tells_of_what_has_gone_wrong(
    programs: Mapping[str, Path], tmp_path: Path, name: str, alert: str
) -> None:
    """It fires within two hours of it; that it stays silent otherwise is tried on the recorded scrape."""
    chart = MONITORED[name]
    series = [{"series": name, "values": values} for name, values in chart.fires[alert].items()]
    query = f'count(ALERTS{{alertname="{alert}",alertstate="firing"}}) > bool 0'
    asked = {"expr": query, "eval_time": f"{MINUTES}m", "exp_samples": [{"labels": "{}", "value": 1}]}
    promtool(programs, chart, tmp_path, {"interval": "1m", "input_series": series, "promql_expr_test": [asked]})


@EVERY
def test_nothing_is_told_of_a_cluster_that_is_well(programs: Mapping[str, Path], tmp_path: Path, name: str) -> None:
    chart = MONITORED[name]
    series = [{"series": name, "values": values.replace("+1x", "+0x")} for name, values in chart.series()]
    asked = {
        "expr": "count(ALERTS) or vector(0)",
        "eval_time": f"{MINUTES}m",
        "exp_samples": [{"labels": "{}", "value": 0}],
    }
    promtool(programs, chart, tmp_path, {"interval": "1m", "input_series": series, "promql_expr_test": [asked]})


@pytest.mark.parametrize(
    ("name", "panel"), [(name, panel) for name, chart in MONITORED.items() for panel in chart.queries()]
)
def test_every_query_of_the_dashboard_has_an_answer(
    programs: Mapping[str, Path], tmp_path: Path, name: str, panel: str
) -> None:
    chart = MONITORED[name]
    series = [{"series": name, "values": values} for name, values in (*chart.series(), *chart.unseen.items())]
    query = f"count({chart.queries()[panel]}) > bool 0"
    asked = {"expr": query, "eval_time": f"{MINUTES}m", "exp_samples": [{"labels": "{}", "value": 1}]}
    promtool(programs, chart, tmp_path, {"interval": "1m", "input_series": series, "promql_expr_test": [asked]})


@EVERY
def test_nothing_is_asked_for_that_no_process_says(name: str) -> None:
    assert MONITORED[name].asked() <= MONITORED[name].said()


@EVERY
def test_every_alert_has_a_runbook(name: str) -> None:
    alerts = {rule["alert"] for rule in MONITORED[name].rules()}
    assert alerts <= MONITORED[name].runbooks
    assert MONITORED[name].fires.keys() == alerts
