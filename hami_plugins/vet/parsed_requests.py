"""What vendors make of a container: asked of their own webhook and request reader, so that no rule guesses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from hami_plugins.engine.demand import request_of
from hami_plugins.engine.mutate import PodChange, applied
from hami_plugins.errors import AdmissionDeniedError, InvalidRequestError
from hami_plugins.model.dialect import Dialect
from hami_plugins.model.pods import Container, Pod
from hami_plugins.model.requests import DeviceRequest
from hami_plugins.model.vendor import ContainerAdmission, VendorSpec

_UNCLAIMED: Final = ContainerAdmission(claimed=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedRequest:
    """One container as one vendor sees it: what its webhook says and writes, and the request that comes of it.

    ``denied`` is the webhook's refusal (``remedy`` what to do, where that is known), ``refused`` the reader's; both
    empty when the request means something.
    """

    spec: VendorSpec
    claimed: bool = False
    after: Container | None = None
    request: DeviceRequest | None = None
    denied: str = ""
    remedy: str = ""
    refused: InvalidRequestError | None = None


def read(spec: VendorSpec, pod: Pod) -> ParsedRequest:
    """How a vendor reads the only container of a pod."""
    admitted = _UNCLAIMED
    try:
        if spec.dialect is Dialect.HAMI:
            plain = ContainerAdmission(claimed=spec.resources.count in pod.containers[0].limits)
            admitted = plain if spec.admit is None else spec.admit(spec, pod.containers[0], pod)
        for change in admitted.changes:
            of_pod = change.kind in ("annotation", "runtimeClassName")
            pod = applied(pod, PodChange(None if of_pod else 0, change))
        after = pod.containers[0]
        return ParsedRequest(spec=spec, claimed=admitted.claimed, after=after, request=request_of(spec, after, pod))
    except AdmissionDeniedError as error:
        if isinstance(error.__cause__, InvalidRequestError):  # has the remedy apart
            return ParsedRequest(spec=spec, denied=error.__cause__.why, remedy=error.__cause__.remedy)
        return ParsedRequest(spec=spec, denied=error.message, remedy=error.remedy)
    except InvalidRequestError as error:
        return ParsedRequest(spec=spec, claimed=admitted.claimed, refused=error)
