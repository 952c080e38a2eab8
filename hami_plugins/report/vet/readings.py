"""What vendors make of a container: asked of their own webhook and request reader, so that no rule guesses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from hami_plugins.engine.demand import request_of
from hami_plugins.engine.mutate import PodChange, applied
from hami_plugins.errors import AdmissionDeniedError, HamiPluginsError, InvalidRequestError
from hami_plugins.model.pods import Container, Pod
from hami_plugins.model.requests import DeviceRequest
from hami_plugins.model.vendor import Admitted, Dialect, VendorSpec

_UNCLAIMED: Final = Admitted(claimed=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
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

    def rewritten(self, resource: str) -> str | None:
        """What the limit of a resource is after the webhook, ``None`` without one."""
        amount = None if self.after is None else self.after.limits.get(resource)
        return None if amount is None else str(amount)


def read(spec: VendorSpec, pod: Pod) -> Reading:
    """How a vendor reads the only container of a pod."""
    admitted = _UNCLAIMED
    try:
        if spec.dialect is Dialect.HAMI:
            plain = Admitted(claimed=spec.resources.count in pod.containers[0].limits)
            admitted = plain if spec.admit is None else spec.admit(spec, pod.containers[0], pod)
        for change in admitted.changes:
            of_pod = change.kind in ("annotation", "runtimeClassName")
            pod = applied(pod, PodChange(None if of_pod else 0, change))
        after = pod.containers[0]
        return Reading(spec=spec, claimed=admitted.claimed, after=after, request=request_of(spec, after, pod))
    except AdmissionDeniedError as error:
        return Reading(spec=spec, denied=error.message, remedy=error.remedy)
    except InvalidRequestError as error:
        return Reading(spec=spec, claimed=admitted.claimed, refused=error)
    except HamiPluginsError as error:
        return Reading(spec=spec, claimed=admitted.claimed, denied=str(error))
