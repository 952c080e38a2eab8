"""Alerts and dashboard: every query is understood by Prometheus, and has an answer on what the processes really say."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.cluster.helm import VOLCANO_VGPU

SCRAPES = Path("tests/golden/charts").absolute()
ALERTS = VOLCANO_VGPU / "files" / "alerts.yaml"
DASHBOARD = VOLCANO_VGPU / "files" / "dashboard.json"
RUNBOOKS = VOLCANO_VGPU / "README.md"
OURS = re.compile(r"volcano_vgpu\w+")
MINUTES = 120
AGENT = 'instance="n1",namespace="NAMESPACE",pod="RELEASE-agent-x"'
SERVER = 'instance="g1",namespace="NAMESPACE",pod="RELEASE-grants-x"'
SUFFIXES = ("", "_total", "_bucket", "_sum", "_count")

FIRES: Mapping[str, Mapping[str, str]] = {
    "VolcanoVgpuAgentAway": {f"up{{{AGENT}}}": "0x120"},
    "VolcanoVgpuAgentNotRegistered": {f"volcano_vgpu_registered{{{AGENT}}}": "0x120"},
    "VolcanoVgpuCardUnhealthy": {f'volcano_vgpu_card_healthy{{{AGENT},uuid="GPU-1"}}': "0x120"},
    "VolcanoVgpuContainersRefused": {f'volcano_vgpu_refusals_total{{{AGENT},reason="grant"}}': "0+2x120"},
    "VolcanoVgpuMemoryStranded": {
        f'volcano_vgpu_card_memory_stranded_bytes{{{AGENT},uuid="GPU-1"}}': "60x120",
        f'volcano_vgpu_card_memory_bytes{{{AGENT},uuid="GPU-1"}}': "100x120",
    },
    "VolcanoVgpuGrantsAway": {f"volcano_vgpu_grants_active{{{SERVER}}}": "0x120"},
    "VolcanoVgpuGrantsWrong": {f'volcano_vgpu_grants_findings{{{SERVER},finding="twice"}}': "1x120"},
    "VolcanoVgpuGrantsCertificateEnds": {
        f"volcano_vgpu_grants_tls_certificate_expiry_timestamp_seconds{{{SERVER}}}": "86400x120"
    },
}
"""For each alert something that has gone wrong."""

UNSEEN: Mapping[str, str] = {
    'volcano_vgpu_card_memory_used_bytes{instance="agent",uuid="GPU-1"}': "1073741824x120",
    'volcano_vgpu_container_memory_used_bytes{instance="agent",namespace="a",pod="p",uuid="GPU-1"}': "1x120",
    'volcano_vgpu_refusals_total{instance="agent",reason="grant"}': "0+1x120",
}
"""What the recorded node had no sample of: its cards are no cards, and nothing was refused. The names are there."""


def rules() -> list[Any]:
    groups = yaml.safe_load(ALERTS.read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def queries() -> dict[str, str]:
    """Every query of the dashboard, by panel and letter."""
    panels = json.loads(DASHBOARD.read_text())["panels"]
    return {f"{panel['title']} {each['refId']}": each["expr"] for panel in panels for each in panel["targets"]}


def scraped() -> Iterator[tuple[str, str]]:
    """The recorded scrapes as series that go on for two hours; what counts grows."""
    for name in ("agent", "grants"):
        for family in text_string_to_metric_families((SCRAPES / f"{name}.metrics").read_text()):
            for sample in family.samples:
                labels = {**sample.labels, "instance": name, "namespace": "NAMESPACE", "pod": f"RELEASE-{name}-x"}
                text = ",".join(f"{key}={json.dumps(held)}" for key, held in sorted(labels.items()))
                grows = "1" if family.type in {"counter", "histogram"} and not sample.name.endswith("_created") else "0"
                yield f"{sample.name}{{{text}}}", f"{sample.value}+{grows}x{MINUTES}"


def promtool(programs: Mapping[str, Path], folder: Path, *tests: Mapping[str, Any]) -> None:
    file = folder / "tests.yaml"
    file.write_text(yaml.safe_dump({"rule_files": [str(ALERTS)], "evaluation_interval": "1m", "tests": list(tests)}))
    done = subprocess.run([programs["promtool"], "test", "rules", file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_prometheus_understands_the_alerts(programs: Mapping[str, Path]) -> None:
    command = [str(programs["promtool"]), "check", "rules", "--lint-fatal", str(ALERTS)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("alert", [rule["alert"] for rule in rules()])
def test_an_alert_tells_of_what_has_gone_wrong(programs: Mapping[str, Path], tmp_path: Path, alert: str) -> None:
    """It fires within two hours of it; that it stays silent otherwise is tried on the recorded scrape."""
    series = [{"series": name, "values": values} for name, values in FIRES[alert].items()]
    query = f'count(ALERTS{{alertname="{alert}",alertstate="firing"}}) > bool 0'
    asked = {"expr": query, "eval_time": f"{MINUTES}m", "exp_samples": [{"labels": "{}", "value": 1}]}
    promtool(programs, tmp_path, {"interval": "1m", "input_series": series, "promql_expr_test": [asked]})


def test_nothing_is_told_of_a_cluster_that_is_well(programs: Mapping[str, Path], tmp_path: Path) -> None:
    series = [{"series": name, "values": values.replace("+1x", "+0x")} for name, values in scraped()]
    asked = {
        "expr": "count(ALERTS) or vector(0)",
        "eval_time": f"{MINUTES}m",
        "exp_samples": [{"labels": "{}", "value": 0}],
    }
    promtool(programs, tmp_path, {"interval": "1m", "input_series": series, "promql_expr_test": [asked]})


@pytest.mark.parametrize("panel", queries())
def test_every_query_of_the_dashboard_has_an_answer(programs: Mapping[str, Path], tmp_path: Path, panel: str) -> None:
    series = [{"series": name, "values": values} for name, values in (*scraped(), *UNSEEN.items())]
    query = f"count({queries()[panel]}) > bool 0"
    asked = {"expr": query, "eval_time": f"{MINUTES}m", "exp_samples": [{"labels": "{}", "value": 1}]}
    promtool(programs, tmp_path, {"interval": "1m", "input_series": series, "promql_expr_test": [asked]})


def test_nothing_is_asked_for_that_no_process_says() -> None:
    said = {
        family.name + suffix
        for name in ("agent", "grants")
        for family in text_string_to_metric_families((SCRAPES / f"{name}.metrics").read_text())
        for suffix in SUFFIXES
    }
    asked = [*(rule["expr"] for rule in rules()), *queries().values(), *UNSEEN]
    assert {name for each in asked for name in OURS.findall(each)} <= said


def test_every_alert_has_a_runbook() -> None:
    headings = {
        line.removeprefix("### ").strip() for line in RUNBOOKS.read_text().splitlines() if line.startswith("### ")
    }
    assert {rule["alert"] for rule in rules()} <= headings
    assert FIRES.keys() == {rule["alert"] for rule in rules()}
