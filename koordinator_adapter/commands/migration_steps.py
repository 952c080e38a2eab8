"""Taking the steps of a migration, and taking them back, each against the object as it is now."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from hami_plugins.errors import AlreadyExistsError, ContentionError, KubeError
from hami_plugins.kube.port import KubeApi
from hami_plugins.wire.fields import Json
from koordinator_adapter.commands.migration_journal import JournalMark, MigrationJournal
from koordinator_adapter.core.migration.steps import MigrationStep, StepKind, StepState, changed, merge_patch, state_of

MOST_TRIES: Final = 8
"""How often an object may change under a step before that counts as another client's change."""

_NOT_THERE: Final = 404


class StepOutcome(NamedTuple):
    """What became of a step: what happened, whether the migration can go on, and whether it was so without it."""

    number: int
    step: MigrationStep
    words: str
    well: bool = True
    found: bool = False


def taken(journal: MigrationJournal, cluster: KubeApi) -> Iterator[StepOutcome]:
    """Take the steps that are still to come, in their order. The first that cannot be taken ends it.

    A state that existed before a step began is not part of this migration, and never undone.
    """
    for number, step in enumerate(journal.steps):
        if journal.done(number):
            continue
        if number not in journal.marks and state_of(step, _current(step, cluster)) is StepState.AFTER:
            outcome = StepOutcome(number, step, "is already done", found=True)
        else:
            journal.mark(number, JournalMark.BEGUN)
            outcome = _settled(number, step, cluster, wanted=StepState.AFTER)
        if outcome.well:
            journal.mark(number, JournalMark.FOUND if outcome.found else JournalMark.DONE)
        yield outcome
        if not outcome.well:
            return


def taken_back(journal: MigrationJournal, cluster: KubeApi) -> Iterator[StepOutcome]:
    """Undo the steps that were begun, the last first. Objects that another client has changed since are left, and the
    rest continues.
    """
    for number in journal.begun:
        journal.mark(number, JournalMark.TAKING_BACK)
        outcome = _settled(number, journal.steps[number], cluster, wanted=StepState.BEFORE)
        if outcome.well:
            journal.mark(number, JournalMark.TAKEN_BACK)
        yield outcome


def _settled(number: int, step: MigrationStep, cluster: KubeApi, *, wanted: StepState) -> StepOutcome:
    """The step, taken or taken back; what is so already stays."""
    for _ in range(MOST_TRIES):
        current = _current(step, cluster)
        state = state_of(step, current)
        if outcome := _left(number, step, state, wanted):
            return outcome
        try:
            _write(step, current, cluster, back=wanted is StepState.BEFORE)
        except (ContentionError, AlreadyExistsError):
            continue
        except KubeError as error:
            if error.status != _NOT_THERE or step.made is None:
                raise
            return StepOutcome(number, step, "is of a kind that this cluster does not know", well=False)
        return StepOutcome(number, step, "done" if wanted is StepState.AFTER else "taken back")
    return StepOutcome(number, step, "keeps being modified by another client; try again later", well=False)


def _left(number: int, step: MigrationStep, state: StepState, wanted: StepState) -> StepOutcome | None:
    """The message about an object that is left as it is; none for one that is to be written."""
    if state is wanted:
        return StepOutcome(number, step, "is already done")
    match state:
        case StepState.GONE:
            # a deleted pod holds nothing, and a missing object needs no undo
            return StepOutcome(
                number, step, "has gone", well=step.kind is StepKind.RECORD or wanted is StepState.BEFORE
            )
        case StepState.FOREIGN:
            return StepOutcome(number, step, "exists and was created by another client; it stays", found=True)
        case StepState.OTHER:
            return StepOutcome(number, step, "has been modified by another client; it is left unchanged", well=False)
    return None


def _write(step: MigrationStep, current: Json | None, cluster: KubeApi, *, back: bool) -> None:
    """One conditional write. Raises ``ContentionError`` where the object has moved on."""
    if step.made is not None:
        if back and current is not None:
            version = {"resourceVersion": current["metadata"]["resourceVersion"]}
            cluster.delete(step.at, body={"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": version})
        else:
            cluster.create(step.at.rpartition("/")[0], step.made)
        return
    body = dict(current or {})
    patch = merge_patch(body, changed(step, body, back=back))
    metadata = {**patch.get("metadata", {}), "resourceVersion": body["metadata"]["resourceVersion"]}
    cluster.merge_patch(step.at, {**patch, "metadata": metadata})


def _current(step: MigrationStep, cluster: KubeApi) -> Json | None:
    try:
        return cluster.get(step.at)
    except KubeError as error:
        if error.status == _NOT_THERE:
            return None
        raise
