"""TorchX itself, asked what it would submit. It is never asked to submit: what it cannot say is put in before that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

from hami_plugins.errors import ConfigError
from hami_plugins.wire.fields import Json

COMPONENT: Final = f"{Path(__file__).with_name('component.py')}:ddp"
"""Our component, by its file."""

SCHEDULER: Final = "kubernetes"
_ASKS_THE_CLUSTER: Final = "validate_spec"
"""An option of newer releases that makes even a dry run ask the API server."""


class RequestedJob(NamedTuple):
    """A Volcano Job, and the local images that it needs in a registry: each with its repository and tag."""

    job: Json
    images: Mapping[str, tuple[str, str]]


def push(images: Mapping[str, tuple[str, str]]) -> None:
    """Push images as TorchX does before it submits. Raises ``ConfigError`` with TorchX' own words."""
    if not images:
        return
    from torchx.schedulers import get_scheduler_factories

    try:
        get_scheduler_factories()[SCHEDULER]("torchx").push_images(dict(images))
    except Exception as error:  # the docker client raises whatever its daemon says
        raise ConfigError(f"TorchX: {error}") from error


def requested(
    component: str, arguments: Sequence[str], options: Mapping[str, str], *, workspace: str = ""
) -> RequestedJob:
    """The Volcano Job that ``torchx run -s kubernetes`` would submit; nothing is asked of any cluster.

    With a ``workspace`` TorchX builds an image with the files of that folder, if they differ from those in the image.
    Raises ``ConfigError`` with TorchX' own words for what it refuses, and where it is not installed.
    """
    if find_spec("torchx") is None:
        raise ConfigError("TorchX is not installed: pip install '.[torchx]' in the pack's tree")
    from torchx.runner import get_runner

    with get_runner() as runner:
        known = {name for name, _ in runner.scheduler_run_opts(SCHEDULER)}
        if unknown := sorted(options.keys() - known):
            raise ConfigError(f"TorchX has no option {unknown[0]}; there are {', '.join(sorted(known))}")
        given: dict[str, Any] = {**options} | ({_ASKS_THE_CLUSTER: False} if _ASKS_THE_CLUSTER in known else {})
        try:
            more = {"workspace": workspace} if workspace else {}
            info = runner.dryrun_component(component, list(arguments), SCHEDULER, given, **more)
        except ConfigError:
            raise
        except Exception as error:  # a component is user code, and TorchX raises any error in it
            raise ConfigError(f"TorchX: {error}") from error
    job: Json = yaml.safe_load(str(info.request))
    return RequestedJob(job, getattr(info.request, "images_to_push", None) or {})
