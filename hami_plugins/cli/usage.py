"""The work of ``usage``: read charges from Prometheus or from journals of allocations, and print them."""

from __future__ import annotations

import csv
import re
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Final

import orjson

from hami_plugins.cli.kit import journal, output
from hami_plugins.cli.kit.edge import Exit
from hami_plugins.cli.kit.options import ChargeForm, Form
from hami_plugins.errors import ConfigError, WireError
from hami_plugins.occupancy import charge_queries, journal_charges
from hami_plugins.occupancy.charge_queries import MINUTE, ChargeAnswers, ChargeQuery
from hami_plugins.occupancy.charges import ChargeReport, TimeSpan
from hami_plugins.output import charges
from hami_plugins.wire import allocation_journal, prometheus
from hami_plugins.wire.allocation_journal import JournalRecord

if TYPE_CHECKING:
    from hami_plugins.cli.option_groups import UsageOptions

QUERY_SECONDS: Final = 60.0
"""How long an answer of Prometheus may take."""

LARGEST_ANSWER: Final = 64 << 20
"""Bytes of one answer."""

_UNITS: Final = {"m": 1, "h": 60, "d": 1440, "w": 10080}
_LONGEST: Final = 366 * 1440
"""Minutes."""


def run(order: UsageOptions) -> int:
    """Print what is charged, and say whether all of it is known."""
    minutes = minutes_of(order.since)
    if bool(order.prometheus) == bool(order.journal):
        raise ConfigError("give --prometheus URL or --journal FILE, one of the two")
    if not 0 <= order.idle_below <= 100:
        raise ConfigError(f"--idle-below {order.idle_below:g}: expected per cent, 0 to 100")
    if order.prometheus:
        below = Fraction(str(order.idle_below)) / 100
        found = _from_prometheus(order.prometheus, minutes, below, now=int(time.time()))
    else:
        found = _from_journals(order.journal or [], minutes, now_ms=time.time_ns() // 1_000_000)
    _print(found, order)
    return Exit.FINE if found.is_complete else Exit.FINDINGS


def minutes_of(text: str) -> int:
    """A span such as ``24h`` in minutes. Raises ``ConfigError``."""
    match = re.fullmatch(r"([1-9]\d{0,5})([mhdw])", text, re.ASCII)
    minutes = int(match[1]) * _UNITS[match[2]] if match else 0
    if not 0 < minutes <= _LONGEST:
        raise ConfigError(f"--since {text}: expected a time span up to 366d, such as 90m, 24h, 30d or 4w")
    return minutes


def _from_prometheus(url: str, minutes: int, below: Fraction, *, now: int) -> ChargeReport:
    if not url.startswith(("http://", "https://")):
        raise ConfigError(f"--prometheus {url}: not an address; write http://HOST:9090")
    windows = list(charge_queries.windows(now, minutes))
    span = TimeSpan((windows[0].at - minutes * 60) * 1000, windows[0].at * 1000)
    answers = (_answers(url, each.minutes, each.at) for each in windows)
    return charge_queries.charges_of(answers, span, idle_below=below)


def _answers(url: str, minutes: int, at: int) -> ChargeAnswers:
    return {each: _asked(url, each.text(minutes), at) for each in ChargeQuery}


def _asked(url: str, query: str, at: int) -> tuple[prometheus.Series, ...]:
    parameters = urllib.parse.urlencode({"query": query, "time": at})
    try:
        with urllib.request.urlopen(  # noqa: S310 - an operator's address, checked above
            f"{url.rstrip('/')}/api/v1/query?{parameters}", timeout=QUERY_SECONDS
        ) as reply:
            body = reply.read(LARGEST_ANSWER + 1)
    except urllib.error.HTTPError as error:
        body = error.read(LARGEST_ANSWER + 1)  # why a query failed is in the body, as in an answer
        if not body.startswith(b"{"):
            raise ConfigError(f"{url}: HTTP {error.code} to {query}; is that the address of Prometheus?") from error
    except (OSError, ValueError) as error:
        raise ConfigError(f"{url}: {getattr(error, 'reason', error)}; is Prometheus reachable from here?") from error
    if len(body) > LARGEST_ANSWER:
        raise ConfigError(f"{url}: an answer is larger than {LARGEST_ANSWER >> 20} MiB; ask for less with --since")
    try:
        return prometheus.decode(orjson.loads(body), "Prometheus:")
    except (orjson.JSONDecodeError, WireError) as error:
        raise ConfigError(f"{url}: {error}; the query is {query}") from error


def _from_journals(given: Sequence[str], minutes: int, *, now_ms: int) -> ChargeReport:
    paths = list(_files(given))
    defects: list[str] = []
    records = [record for path in paths for record in _records(path, defects)]
    span = TimeSpan(now_ms - minutes * MINUTE, now_ms)
    return journal_charges.charges_of(records, span, defects=defects)


def _files(given: Sequence[str]) -> Iterator[Path]:
    """The files, and of folders those that allocators wrote there. Raises ``ConfigError`` where there are none."""
    for name in given:
        path = Path(name)
        inside = sorted(path.glob("*.jsonl")) if path.is_dir() else [path]
        if not inside:
            raise ConfigError(f"--journal {name}: the directory has no files *.jsonl, as allocators write them")
        yield from inside


def _records(path: Path, defects: list[str]) -> Iterator[JournalRecord]:
    """The lines of a journal. A torn last line is left out: it is being written; another bad line is a defect."""
    try:
        lines = journal.read(path).lines
    except OSError as error:
        raise ConfigError(f"--journal {path}: {error.strerror}") from error
    for number, line in enumerate(lines, 1):
        try:
            yield allocation_journal.decode(orjson.loads(line), f"{path}:{number}:")
        except orjson.JSONDecodeError as error:
            defects.append(f"{path}:{number}: not JSON ({error}); the line is left out")
        except WireError as error:
            defects.append(f"{error}; the line is left out")


def _print(found: ChargeReport, order: UsageOptions) -> None:
    if order.form in {ChargeForm.JSON, ChargeForm.YAML}:
        source: charges.ChargeSource = "prometheus" if order.prometheus else "journal"
        output.document(charges.document(found, source), Form(order.form.value))
        return
    if order.form is ChargeForm.CSV:
        rows = charges.csv_rows(found)
        csv.writer(sys.stdout, lineterminator="\n").writerows(list(rows)[1 if order.no_headers else 0 :])
        for each in charges.lines(found):
            output.remark(each.words)
        return
    headers = not order.no_headers
    output.table(charges.table(found), headers=headers)
    for table in (charges.used_table(found), charges.idle_table(found)):
        if table.rows:
            output.line()
            output.table(table, headers=headers)
    for line in charges.lines(found):
        output.prose(line.words, line.tone)
