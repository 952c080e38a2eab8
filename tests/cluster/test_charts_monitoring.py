"""Alerts and dashboards: Prometheus understands every query, and what the processes really say answers it."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from hami_plugins.occupancy.charge_queries import ChargeQuery
from tests.cluster.helm import ALLOCATOR
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


def test_recorded_hours_are_those_that_were_held(programs: Mapping[str, Path], tmp_path: Path) -> None:
    """Half a card with 20 GiB for 90 minutes: in the last hour half a device-hour and 20 GiB-hours."""
    rules = ALLOCATOR / "files" / "recording.yaml"
    command = [str(programs["promtool"]), "check", "rules", "--lint-fatal", str(rules)]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0
    payer = 'pod_namespace="team",queue="gold",owner="Job/train",vendor="NVIDIA"'
    scraped = f'{payer},namespace="NAMESPACE",pod="RELEASE-x-y"'
    held = {"allocated_devices": "0.5", "allocated_memory_bytes": str(20 << 30)}
    labels = ('owner="Job/train"', 'pod_namespace="team"', 'queue="gold"', 'vendor="NVIDIA"')
    asked = [
        {
            "expr": f"namespace_queue_owner:{name}:sum1h",
            "eval_time": "90m30s",
            "exp_samples": [{"labels": f"namespace_queue_owner:{name}:sum1h{{{','.join(labels)}}}", "value": value}],
        }
        for name, value in (("hami_device_hours", 0.5), ("hami_gib_hours", 20))
    ]
    series = [
        {"series": f"hami_allocator_{name}{{{scraped}}}", "values": f"{value}x120"} for name, value in held.items()
    ]
    tests = {"interval": "1m", "input_series": series, "promql_expr_test": asked}
    file = tmp_path / "tests.yaml"
    file.write_text(yaml.safe_dump({"rule_files": [str(rules)], "evaluation_interval": "1m", "tests": [tests]}))
    done = subprocess.run([programs["promtool"], "test", "rules", file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("query", ChargeQuery)
def test_prometheus_understands_what_usage_asks(
    programs: Mapping[str, Path], tmp_path: Path, query: ChargeQuery
) -> None:
    """A pod that holds 20 GiB for an hour, uses a tenth of it and computes half of the time: 60 samples."""
    chart = MONITORED["allocator"]
    pod = 'exported_namespace="team",exported_pod="p",namespace="kube-system",pod="agent"'
    payer = 'pod_namespace="team",queue="gold",owner="Job/train",vendor="NVIDIA"'
    series = {
        "hami_allocator_active": "1x120",
        f"hami_allocator_allocated_devices{{{payer}}}": "0.5x120",
        f"hami_allocator_allocated_memory_bytes{{{payer}}}": "20x120",
        f'volcano_vgpu_container_memory_allocated_bytes{{{pod},uuid="GPU-1"}}': "20x120",
        f'volcano_vgpu_container_memory_used_bytes{{{pod},uuid="GPU-1",kind="data"}}': "2x120",
        f'volcano_vgpu_container_utilization_ratio{{{pod},uuid="GPU-1"}}': "0.5x120",
    }
    sums = {"DEVICES": 30, "MEMORY": 1200, "ANSWERED": 60, "ALLOCATED": 1200, "USED": 120, "BUSY": 30, "MINUTES": 60}
    asked = {
        "expr": f"sum({query.text(60)})",
        "eval_time": "90m30s",
        "exp_samples": [{"labels": "{}", "value": sums[query.name]}],
    }
    told = [{"series": name, "values": values} for name, values in series.items()]
    promtool(programs, chart, tmp_path, {"interval": "1m", "input_series": told, "promql_expr_test": [asked]})


@EVERY
def test_nothing_is_asked_for_that_no_process_says(name: str) -> None:
    assert MONITORED[name].asked() <= MONITORED[name].said()


@EVERY
def test_every_alert_has_a_runbook(name: str) -> None:
    alerts = {rule["alert"] for rule in MONITORED[name].rules()}
    assert alerts <= MONITORED[name].runbooks
    assert MONITORED[name].fires.keys() == alerts
