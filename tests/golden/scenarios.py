"""Whole clusters: ``python -m tests.golden.scenarios DIR...`` holds plans against what the real Volcano did.

Each folder (or each folder in a folder) holds ``before.json`` or ``before.json.gz``, ``submit.yaml``, ``expect.yaml``
and, where Volcano had one, ``device-config.yaml``. Exits with 1 when anything is left unexplained.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from hami_plugins.errors import HamiPluginsError
from tests.golden.scenario_judge import AGREES, EXPLAINED, GENERAL, UNEXPLAINED, Judgement, judged, reason, sentences
from tests.golden.scenario_plans import FOLDER, names, plain_key, scenario, unplanned


def folders(given: Sequence[str]) -> list[Path]:
    """The scenarios among folders and in them; without any, those that are kept here."""
    found: list[Path] = []
    for path in map(Path, given):
        inside = [path] if (path / "expect.yaml").exists() else sorted(path.iterdir())
        found += [each for each in inside if (each / "expect.yaml").exists()]
    return found if given else [FOLDER / name for name in names()]


def judgements(given: Sequence[str] = ()) -> list[Judgement]:
    """The scenarios, planned and judged."""
    return [_judged(folder) for folder in folders(given)]


def _judged(folder: Path) -> Judgement:
    """One scenario; what cannot even be read is left unexplained, and the others go on."""
    try:
        return judged(scenario(folder))
    except HamiPluginsError as error:
        return Judgement(unplanned(folder), unexplained=[f"it cannot be planned: {error}"])


def rows(found: Iterable[Judgement]) -> Iterator[tuple[str, ...]]:
    """A row per scenario for a table."""
    for each in found:
        it = each.scenario
        told = ", ".join(rule for rule, _, _ in sentences(it) if rule not in GENERAL)
        yield (
            it.name,
            it.expect["kind"],
            f"{len(it.placed)} of {len(it.expect['placed'])}",
            f"{len(it.pending)} of {len(it.expect['pending'])}",
            f"{len(it.rejected)} of {len(it.expect['rejected'])}",
            "yes" if not each.impossible else f"not {', '.join(each.impossible)}",
            each.verdict,
            told,
        )


def _told(found: Judgement) -> Iterator[str]:
    it = found.scenario
    yield f"{it.name} ({it.expect['kind']}): {found.verdict}"
    yield f"  {it.expect['title']}"
    for what, theirs, ours in (
        ("placed", it.expect["placed"], it.placed),
        ("pending", it.expect["pending"], it.pending),
        ("refused", it.expect["rejected"], it.rejected),
    ):
        listed = ", ".join(sorted(theirs)) or "none"
        same = {plain_key(key) for key in theirs} == {plain_key(key) for key in ours}
        yield f"  {what}: {listed}" if same else f"  {what}: {listed}; here {', '.join(sorted(ours)) or 'none'}"
    for pod, each in sorted(it.pending.items()):
        yield f"  {pod} stops at {each.stage}: {reason(each)}"
    possible = ", ".join(sorted(set(it.expect["devices"]) - set(found.impossible))) or "none"
    yield f"  cards possible: {possible}"
    for pod, why in found.impossible.items():
        yield f"  cards not possible: {pod}: {'; '.join(why)}"
    for line in found.explained:
        yield f"  explained: {line}"
    for line in found.unexplained:
        yield f"  UNEXPLAINED: {line}"


def main() -> int:
    """Judge the folders that are named and say what is left unexplained."""
    parser = argparse.ArgumentParser(prog="python -m tests.golden.scenarios", description=__doc__)
    parser.add_argument("folders", nargs="*", metavar="DIR", help="scenarios, or folders of them")
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    arguments = parser.parse_args()
    found = judgements(arguments.folders)
    if not found:
        parser.error(f"no scenario in {', '.join(arguments.folders)}: a folder needs an expect.yaml")
    verdicts = Counter(each.verdict for each in found)
    if arguments.json:
        summary = {verdict: verdicts[verdict] for verdict in (AGREES, EXPLAINED, UNEXPLAINED)}
        documents = [each.document() for each in found]
        sys.stdout.write(json.dumps({"scenarios": documents, "summary": summary}, indent=2) + "\n")
    else:
        for each in found:
            sys.stdout.write("\n".join(_told(each)) + "\n\n")
        counted = ", ".join(f"{verdicts[verdict]} {verdict}" for verdict in (AGREES, EXPLAINED, UNEXPLAINED))
        sys.stdout.write(f"{len(found)} scenarios: {counted}\n")
    return 1 if verdicts[UNEXPLAINED] else 0


if __name__ == "__main__":
    sys.exit(main())
