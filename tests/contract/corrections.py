"""Claims that were wrong: what a case or an emulator said before the real component was asked."""

from __future__ import annotations

from typing import Final, NamedTuple


class Correction(NamedTuple):
    """``about`` names what was asked; case and emulator say today what is ``real``."""

    about: str
    claimed: str
    real: str


CORRECTIONS: Final = (
    Correction(
        "a list at a version that is still to come",
        "504 `Too large resource version: ...`, at once",
        "504 `Timeout: Too large resource version: ...`, after three seconds for which the emulator does not wait",
    ),
    Correction(
        "a patch whose media type is no patch's",
        "415, the message names what is taken",
        "415 `415: Unsupported Media Type`; the message names what is taken for custom objects alone",
    ),
    Correction(
        "a JSON patch that replaces a member that is not there",
        "422, as RFC 6902 has it",
        "200, the member is made; `copy` takes one that is not there as null, `test` finds it null",
    ),
    Correction("`sendInitialEvents` without `resourceVersionMatch`", "400", "422 with `ListOptions.meta.k8s.io`"),
    Correction("a label that is null", "left out", "empty text"),
    Correction("a path that nobody serves, a method that is not taken", "no details", "empty details"),
    Correction("a new object with a version", "500 with a reason", "500 without a reason"),
    Correction(
        "an unknown field selector of a kind that has no own",
        "400 `field label not supported: ...`",
        '400 `"..." is not a known field selector: only "metadata.name", "metadata.namespace"`',
    ),
    Correction("a PUT of a Lease, an Event or a Role that is not there", "404", "201"),
    Correction("a finalizer without a domain", "taken", "422 for kinds of the groups core, apps and batch"),
    Correction("a patch of `metadata.uid` or of the kind", "409, 400", "422"),
    Correction("a binding without a name", "taken for the pod of the path", "400"),
    Correction(
        "the deletion of a pod that goes at once",
        "told as one deletion",
        "told as a mark without grace, a generation more, and a deletion",
    ),
    Correction("a pod with a scheduling gate", "no condition", "PodScheduled is False: SchedulingGated"),
    Correction("a custom spec whose 1 becomes true", "the same generation", "the next generation"),
)
