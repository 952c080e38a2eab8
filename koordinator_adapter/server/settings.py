"""What an operator can set about the adapter's server and its part on nodes, and where that comes from.

Built-in defaults, then the YAML file, then ``HAMI_PLUGINS__KOORDINATOR__...`` from the environment.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field

from hami_plugins.config.values import AbsolutePath, Name, Seconds, Sha256, Strict
from hami_plugins.web.settings import ServedProgram, ServedSettings, server_defaults
from koordinator_adapter.core.translation.choices import NoCoreLimit

NAME: Final = "koordinator-adapter"
"""What the adapter's objects are called unless an operator has it otherwise.

The mutating configuration comes before Koordinator's by this name, though either order does.
"""

PREFIX: Final = "HAMI_PLUGINS__KOORDINATOR__"
"""What a variable begins with that sets something: ``HAMI_PLUGINS__KOORDINATOR__INJECTION__MODE``."""

Choice = Literal["auto", "always", "never"]


class Schedulers(Strict):
    """How the schedulers are called, as pods name them."""

    hami: Name = Field("hami-scheduler", description="`schedulerName` of HAMi's scheduler.")
    volcano: Name = Field("volcano", description="`schedulerName` of Volcano.")
    koordinator: Name = Field("koord-scheduler", description="`schedulerName` of Koordinator.")


class TranslationSettings(Strict):
    """How pods become Koordinator's; the words of ``hami-plugins koordinator translate``.

    ``profiles`` names the schedulers that pack or spread, by the policy's word. ``models`` are the models of cards as
    nodes' labels spell them, and ``card_memory`` is the largest card in MiB; what is not set is looked up in the
    cluster, and so is whether Device objects carry the ids of cards (``device_labels``). ``runtime_class`` is given to
    pods that name none; empty for none.
    """

    schedulers: Schedulers = Schedulers()
    profiles: dict[str, str] = Field(
        default_factory=dict,
        description="Scheduler for each policy, such as `binpack: koord-binpack`.",
    )
    no_core_limit: NoCoreLimit = Field(
        NoCoreLimit.SHARE,
        description="Request of a container without a core limit: a share of the card, nothing, or the whole card.",
    )
    slices_per_card: Annotated[int, Field(ge=1, le=100)] = Field(
        10,
        description="Containers without a core limit that fit on one card.",
    )
    models: tuple[Name, ...] | None = Field(
        None,
        description="Models of cards as `node.koordinator.sh/gpu-model` spells them. Not set: read from nodes.",
    )
    device_labels: bool | None = Field(
        None,
        description="Whether Device objects carry the ids of cards as labels. Not set: read from the cluster.",
    )
    card_memory: Annotated[int, Field(ge=1)] | None = Field(
        None,
        description="Memory of the largest card in MiB; more is refused. Not set: read from the cluster.",
    )
    runtime_class: str = Field(
        "nvidia",
        description="`runtimeClassName` of translated pods that name none; empty for none.",
    )


class AdmissionSettings(Strict):
    """Which pods are let in.

    ``without_limits`` is what becomes of a pod that shares a card and has no label by which its limits are enforced.
    """

    without_limits: Literal["refuse", "warn", "allow"] = Field(
        "warn",
        description="Answer for pods that share a card without the label that enforces their limits.",
    )


class Injection(Strict):
    """HAMi-core for pods that share cards, where koordlet does not do it.

    ``auto`` does it as long as some node that promises limits has no koordlet that injects them. ``hook_path`` is the
    folder of the library on nodes, ``lock_path`` that of its locks.
    """

    mode: Choice = Field(
        "never",
        description="Whether HAMi-core is injected; `auto` does it while koordlet does not on some labelled node.",
    )
    hook_path: AbsolutePath = Field("/usr/local/vgpu", description="Directory of HAMi-core's library on nodes.")
    lock_path: AbsolutePath = Field(
        "/tmp/vgpulock",  # noqa: S108 - where HAMi-core's containers meet on every node
        description="Directory of HAMi-core's locks on nodes.",
    )


class DeviceSettings(Strict):
    """Device objects of nodes whose cards koordlet does not report.

    ``vendors`` leaves all other vendors out (their names as ``hami-plugins vendors`` spells them). ``node_resources``
    says who writes the sums into nodes: ``auto`` waits ``grace`` seconds for Koordinator's controller. ``workers`` is
    how many writes are on their way at once.
    """

    enabled: bool = Field(
        True,
        description="Whether Device objects are published for nodes whose cards koordlet does not report.",
    )
    vendors: tuple[Name, ...] = Field(
        (),
        description="Vendors to publish, as `hami-plugins vendors` spells them; empty for all.",
    )
    node_resources: Choice = Field(
        "auto",
        description="Whether the server writes the sums into nodes; `auto` waits for Koordinator's controller.",
    )
    grace: Seconds = Field(30.0, description="Seconds to wait for Koordinator's controller.")
    workers: Annotated[int, Field(ge=1, le=64)] = Field(8, description="Writes that run at the same time.")


class NodeSettings(Strict):
    """What is done on each node: the library is put there, and the node is labelled once it is.

    ``library_source`` is the folder of the image that has the library, ``library_sha256`` the checksum that it has to
    have; ``every`` is how often it is looked after.
    """

    library_source: AbsolutePath | None = Field(
        None,
        description="Directory of the image that holds HAMi-core's library.",
    )
    library_sha256: Sha256 = Field("", description="Checksum that the library must have; empty for any.")
    every: Annotated[float, Field(ge=1)] = Field(60.0, description="Seconds between two checks of the library.")
    label: bool = Field(True, description="Whether the node is labelled once the library is there.")


@server_defaults(name=NAME, namespace="koordinator-system", port=9396)
class AdapterSettings(ServedSettings):
    """All settings of the adapter."""

    translation: TranslationSettings = TranslationSettings()
    admission: AdmissionSettings = AdmissionSettings()
    injection: Injection = Injection()
    devices: DeviceSettings = DeviceSettings()
    node: NodeSettings = NodeSettings()


SETTINGS: Final = ServedProgram(
    name="koordinator",
    model=AdapterSettings,
    prefix=PREFIX,
    commands="koordinator serve, koordinator node",
)
