"""Every exception that is raised on purpose. A pod that does not fit is not among them: see ``model.verdicts``.

The class attributes are hints for the edge (HTTP status, exit code, whether trying again may help), so that no
edge has to know why something was raised.
"""

from typing import ClassVar, NamedTuple


class HamiPluginsError(Exception):
    """Something that the user, the operator or another component has to put right."""

    retryable: ClassVar[bool] = False
    http_status: ClassVar[int] = 500


class ConfigError(HamiPluginsError):
    """Settings or registered vendors contradict each other; the process must not start."""

    http_status = 500


class WireError(HamiPluginsError):
    """Foreign text (an annotation, a quantity, a document) does not parse.

    ``key`` names where the text stood, ``text`` is the text itself and ``why`` what is wrong with it.
    """

    http_status = 422

    def __init__(self, key: str, text: str, why: str) -> None:
        shown = text if len(text) <= 200 else f"{text[:200]}... ({len(text)} characters)"
        super().__init__(f"{key}: {why} (in {shown!r})")
        self.key = key
        self.text = text
        self.why = why


class ManifestPlace(NamedTuple):
    """A place in a manifest file; numbers count from 1. ``path`` leads to it from the top of the document."""

    source: str
    document: int
    line: int
    column: int
    path: tuple[str | int, ...] = ()


class ManifestError(HamiPluginsError):
    """A document that a person wrote is not what it says it is; the place is part of the message.

    ``place`` repeats it for programs (``None`` when no place in a file is meant), ``why`` is the message without it.
    """

    http_status = 400

    def __init__(self, message: str, *, place: ManifestPlace | None = None, why: str = "") -> None:
        super().__init__(message)
        self.place = place
        self.why = why or message


class InvalidRequestError(HamiPluginsError):
    """A workload asks for something that cannot mean anything; its author has to change it.

    ``container``, ``resource`` and ``value`` say where, ``remedy`` what would be accepted.
    """

    http_status = 400

    def __init__(self, *, container: str, resource: str, value: str, why: str, remedy: str) -> None:
        super().__init__(f"container {container}: {resource}={value}: {why}; {remedy}")
        self.container = container
        self.resource = resource
        self.value = value
        self.why = why
        self.remedy = remedy


class AdmissionDeniedError(HamiPluginsError):
    """The webhook refuses the pod; ``code`` is the status that the API server hands to the user.

    ``message`` is as HAMi spells it, ``remedy`` what to do, where that is not in the message.
    """

    http_status = 403

    def __init__(self, message: str, code: int = 403, *, remedy: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.remedy = remedy


class KubeError(HamiPluginsError):
    """The API server answered with an error, or not at all.

    ``status`` is its HTTP status (``None`` where there was no answer), ``reason`` the API's reason (``NotFound``,
    ``Conflict``, ...), ``may_retry`` whether a retry may help, ``retry_after`` the seconds to wait before it,
    ``continue_token`` where an expired list may be continued.
    """

    def __init__(  # noqa: PLR0913 each edge needs another of them
        self,
        message: str,
        *,
        status: int | None = None,
        reason: str = "",
        retryable: bool = False,
        retry_after: float | None = None,
        continue_token: str = "",
    ) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.may_retry = retryable
        self.retry_after = retry_after
        self.continue_token = continue_token


class UnreachableError(KubeError):
    """No connection to the API server came about: nothing was sent, so that anything may be sent again."""

    retryable = True
    http_status = 503


class ContentionError(KubeError):
    """The object has changed since the writer read it (409): read it again, and decide again."""

    retryable = True
    http_status = 409


class AlreadyExistsError(ContentionError):
    """An object of that name is there already (409 to a create): creating it again will never work."""

    retryable = False


class KubeletError(HamiPluginsError):
    """The kubelet of this node did not answer, or refused; asking again is right."""

    retryable = True
    http_status = 503
