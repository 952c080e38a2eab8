"""Sets of values that the tests render and install: who uses the chart, and how."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from hami_plugins.allocations.manifests import chart_vendor
from hami_plugins.vendors import nvidia

Values = Mapping[str, Any]

_PULLED: Final = {"imagePullSecrets": [{"name": "mirror"}]}

SETS: Final[Mapping[str, Values]] = MappingProxyType(
    {
        "defaults": {},
        "overcommitted": {
            "agent": {
                "settings": {
                    "deviceSplitCount": 4,
                    "deviceMemoryScaling": 1.5,
                    "nodes": [{"labels": {"pool": "inference"}, "settings": {"deviceSplitCount": 20}}],
                },
                "runtimeClassName": "nvidia",
                "hostPID": True,
                "library": {"hostPath": "/opt/hami-core"},
            },
        },
        "monitored": {
            "agent": {"library": {"image": "projecthami/hami:v2.10.0"}},
            "monitoring": {"serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}}},
        },
        "observed": {
            "monitoring": {
                "podMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
                "prometheusRule": {"enabled": True, "runbooks": "https://runbooks.example/volcano-vgpu"},
                "dashboard": {"enabled": True},
            },
            "networkPolicy": {
                "scrapers": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}],
            },
        },
        "mirrored": {
            "global": {"imageRegistry": "mirror.example", **_PULLED},
            "fullnameOverride": "vgpu",
            "agent": {"image": {"digest": f"sha256:{'0' * 64}"}, "priorityClassName": ""},
            "uninstall": {"clean": False},
        },
        "mig": {
            "deviceConfig": {
                "nvidia": {
                    "resourceCountName": "example.com/vgpu",
                    "resourceMemoryName": "example.com/vgpu-memory",
                    "resourceCoreName": "example.com/vgpu-cores",
                    "knownMigGeometries": [
                        {
                            "models": ["A30"],
                            "allowedGeometries": [
                                {"group": "group1", "geometries": [{"name": "1g.6gb", "memory": 6144, "count": 4}]}
                            ],
                        }
                    ],
                }
            },
            "nodeConfig": {"nodeconfig": [{"name": "gpu-1", "operatingmode": "mig", "devicesplitcount": 2}]},
            "agent": {"settings": {"mode": "mig"}},
        },
    }
)
"""Values of ``volcano-vgpu``, by what they show."""

ALLOCATOR_SETS: Final[Mapping[str, Values]] = MappingProxyType(
    {
        "defaults": {},
        "webhook": {
            "mode": "webhook",
            "settings": {"volcano": {"schedulers": ["volcano", "batch"]}},
            "certificate": {"source": "secret", "secretName": "ours", "caBundle": "Q0E="},
            "webhooks": {"exempt": ["kube-system", "infra"], "markedOnly": True},
        },
        "policy": {"mode": "policy"},
        "neuron": {
            "global": {"imageRegistry": "mirror.example", **_PULLED},
            "vendors": ["AWSNeuron"],
            "settings": {"neuron": {"capacityBlockMargin": 600}},
            "neuronAgent": {"enabled": True, "settings": {"neuronLs": {"intervalSeconds": 60}}},
            "webhooks": {"jobs": True, "markedOnly": True},
            "certificate": {"source": "certManager", "issuer": {"name": "ours", "kind": "ClusterIssuer"}},
            "networkPolicy": {"apiServers": ["10.0.0.0/28"]},
            "monitoring": {
                "serviceMonitor": {"enabled": True},
                "prometheusRule": {"enabled": True, "runbooks": "https://runbooks.example/allocator"},
                "dashboard": {"enabled": True},
            },
        },
        "hami": {
            "vendors": ["NVIDIA", "Ascend910B2", "AWSNeuron"],
            "schedulerName": "cards",
            "settings": {
                "scheduler": {"nodeSchedulerPolicy": "spread"},
                "devices": {"nvidia": {"resourceCountName": "example.com/gpu", "deviceSplitCount": 10}},
            },
            "kubeScheduler": {
                "enabled": True,
                "image": "registry.k8s.io/kube-scheduler:v1.34.4",
                "profile": {
                    "pluginConfig": [
                        {"name": "NodeResourcesFit", "args": {"scoringStrategy": {"type": "MostAllocated"}}}
                    ]
                },
                "extraArgs": ["--v=2"],
            },
            "replicas": 2,
            "podDisruptionBudget": {"enabled": True},
            "monitoring": {"podMonitor": {"enabled": True}, "prometheusRule": {"enabled": True}},
        },
        "everything": {
            "vendors": ["Volcano-vGPU", "AWSNeuron", "NVIDIA", "MLU", "DCU", "Ascend310P"],
            "settings": {
                "volcano": {"deviceConfig": {"nvidia": {"resourceCountName": "example.com/vgpu"}}},
                "scheduler": {"binds": False},
            },
            "webhooks": {"jobs": True},
            "fullnameOverride": "cards",
        },
        "charged": {
            "settings": {"charging": {"ownerLabel": "example.com/team"}},
            "journalVolume": {"persistentVolumeClaim": {"claimName": "journal"}},
            "monitoring": {"prometheusRule": {"enabled": True}, "dashboard": {"enabled": True}},
        },
    }
)
"""Values of ``allocator``."""


KOORDINATOR_SETS: Final[Mapping[str, Values]] = MappingProxyType(
    {
        "defaults": {},
        "everything": {
            "settings": {
                "injection": {"mode": "auto", "hookPath": "/opt/vgpu"},
            },
            "allocationPolicy": {"users": ["jane", 'ci\'s "own"', "a\\b"], "groups": ["admins"]},
            "node": {"enabled": True, "library": {"image": "projecthami/hami:v2.10.0"}, "settings": {"every": 30}},
            "certificate": {"source": "certManager"},
            "networkPolicy": {"apiServers": ["10.0.0.0/28"], "scrapers": [{"podSelector": {}}]},
            "monitoring": {
                "podMonitor": {"enabled": True},
                "prometheusRule": {"enabled": True, "runbooks": "https://runbooks.example/koordinator-adapter"},
                "dashboard": {"enabled": True},
            },
        },
    }
)
"""Values of ``koordinator-adapter``."""


class Case(NamedTuple):
    """One set of values, with its chart."""

    chart: str
    name: str
    values: Values

    def __str__(self) -> str:
        return f"{self.chart}-{self.name}"


CASES: Final = (
    *(Case("volcano-vgpu", name, values) for name, values in SETS.items()),
    *(Case("allocator", name, values) for name, values in ALLOCATOR_SETS.items()),
    *(Case("koordinator-adapter", name, values) for name, values in KOORDINATOR_SETS.items()),
)

_CHIP: Final = {"commonWord": "Ascend910B", "memoryAllocatable": 1, "memoryCapacity": 1}

REFUSED: Final[tuple[tuple[Values, str], ...]] = (
    ({"agent": {"settings": {"deviceSplitCont": 3}}}, "additional properties 'deviceSplitCont' not allowed"),
    (
        {"agent": {"settings": {"deviceSplitCount": "ten"}}},
        "'/agent/settings/deviceSplitCount': got string, want integer",
    ),
    ({"agent": {"settings": {"deviceSplitCount": 0}}}, "'/agent/settings/deviceSplitCount': minimum"),
    ({"agent": {"settings": {"cdi": "perhaps"}}}, "value must be one of 'auto', 'always', 'never'"),
    ({"agent": {"settings": {"hookPath": "usr/local"}}}, "'/agent/settings/hookPath': 'usr/local' does not match"),
    ({"agent": {"settings": {"listen": {"port": 1}}}}, "additional properties 'listen' not allowed"),
    ({"agents": {}}, "additional properties 'agents' not allowed"),
    (
        {"allocator": {"mode": "extender"}},
        "allocator.mode: no such value here; the server is the chart allocator",
    ),
    (
        {"verify": {"url": "http://a"}},
        "verify.url: no such value here; helm test asks the server in the chart",
    ),
    ({"imagePullSecrets": [5]}, "'/imagePullSecrets/0': got number, want object"),
    (
        {"devicePlugin": {"deviceSplitCount": 5}},
        "devicePlugin.deviceSplitCount: the value is called agent.settings.deviceSplitCount here",
    ),
    (
        {"deviceSplitCount": 5, "agent": {"settings": {"deviceSplitCount": 5}}},
        "deviceSplitCount: the value is called agent.settings.deviceSplitCount here; write it there, and remove",
    ),
    ({"resourceName": "a.b/c"}, "resourceName: the value is called deviceConfig.nvidia.resourceCountName (Volcano"),
    ({"deviceSplitCount": 0}, "deviceSplitCount: the value is called agent.settings.deviceSplitCount here"),
    ({"resourceName": ""}, "resourceName: the value is called deviceConfig.nvidia.resourceCountName (Volcano"),
    ({"fullnameOverride": "Foo_Bar"}, "'/fullnameOverride': 'Foo_Bar' does not match pattern"),
    ({"fullnameOverride": "1a"}, "fullnameOverride: objects would be called 1a-..., and Services begin with a letter"),
    ({"serviceAccounts": {"agent": {"name": "a b"}}}, "'/serviceAccounts/agent/name': 'a b' does not match pattern"),
    (
        {"monitoring": {"prometheusRule": {"runbooks": "our wiki"}}},
        "'/monitoring/prometheusRule/runbooks': 'our wiki' does not match pattern",
    ),
    (
        {"devicePlugin": {"imageRepository": "a"}},
        "devicePlugin.imageRepository: no such value here; what is set about",
    ),
    (
        {"scheduler": {"kubeScheduler": {}}},
        "scheduler.kubeScheduler: no such value here; what is set about the server that schedulers ask",
    ),
    ({"devices": {"nvidia": {"enabled": True}}}, "devices.nvidia.enabled: the value is called enabled here"),
    (
        {"devices": {"ascend": {"enabled": False}}},
        "devices.ascend.enabled: no such value in the chart volcano-vgpu; it is allocator.vendors",
    ),
    (
        {"schedulerName": "a"},
        "schedulerName: no such value in the chart volcano-vgpu; it is allocator.schedulerName",
    ),
    ({"global": {"gpuHookPath": "/opt"}}, "global.gpuHookPath: HAMi-core's folder on nodes is agent.settings.hookPath"),
    (
        {"monitoring": {"podMonitor": {"enabled": True}, "serviceMonitor": {"enabled": True}}},
        "monitoring: podMonitor and serviceMonitor are two ways",
    ),
    (
        {"deviceConfig": {"nvidia": {"deviceSplitCount": "ten"}}},
        "'/deviceConfig/nvidia/deviceSplitCount': got string, want integer",
    ),
    ({"deviceConfig": {"nvidia": {"gpuMemoryFactor": 0}}}, "'/deviceConfig/nvidia/gpuMemoryFactor': minimum"),
    ({"deviceConfig": {"nvidia": {"resourceCountName": 5}}}, "resourceCountName': got number, want string"),
    ({"deviceConfig": {"nvidia": {"resourceCountNam": "a/b"}}}, "invalid propertyName 'resourceCountNam'"),
    ({"deviceConfig": {"kind": "ConfigMap", "data": {}}}, "'/deviceConfig/kind': got string, want object"),
    (
        {"deviceConfig": {"nvidia": {"knownMigGeometries": [{"models": ["A30"], "allowedGeometries": [[]]}]}}},
        "allowedGeometries/0': got array, want object",
    ),
    (
        {"nodeConfig": {"nodeconfig": [{"name": "a", "operatingmode": "migg"}]}},
        "operatingmode': value must be one of '', 'hami-core', 'mps', 'mig'",
    ),
    ({"nodeConfig": {"nodeconfig": [{"nam": "a"}]}}, "'/nodeConfig/nodeconfig/0': missing property 'name'"),
    (
        {"agent": {"library": {"image": "a:1", "hostPath": "/b"}}},
        "agent.library: image and hostPath are two ways",
    ),
    (
        {"agent": {"settings": {"dialect": "hami", "mode": "mig", "flexibleMig": True}}},
        "agent.settings.flexibleMig: only a privileged agent may cut cards; set agent.privileged: true as well",
    ),
    ({"deviceConfig": {"nvidia": {"defaultCores": -1}}}, "'/deviceConfig/nvidia/defaultCores': minimum"),
    ({"scheduler": {"defaultMem": 1}}, "scheduler.defaultMem: the value is called agent.settings.defaults.memory ("),
    ({"devicePlugin": {"migStrategy": "none"}}, "devicePlugin.migStrategy: the value is called agent.settings.mode ("),
    ({"agent": {"enabled": False}}, "nothing would be installed"),
)
"""Values of ``volcano-vgpu`` that are wrong, and what Helm says of them."""

_SCHEDULER: Final = {"vendors": ["NVIDIA"], "kubeScheduler": {"enabled": True, "image": "a/b:1"}}

REFUSED_BY_THE_ALLOCATOR: Final[tuple[tuple[Values, str], ...]] = (
    ({"mode": "best"}, "value must be one of 'extender', 'webhook', 'policy'"),
    ({"settings": {"reservation": 20}}, "'/settings/reservation': exclusiveMinimum"),
    ({"settings": {"volcano": {"mode": "webhook"}}}, "additional properties 'mode' not allowed"),
    ({"settings": {"scheduler": {"name": "a"}}}, "additional properties 'name' not allowed"),
    ({"replicas": 0}, "'/replicas': minimum"),
    ({"vendors": []}, "'/vendors': minItems"),
    ({"vendors": ["GPU"]}, "vendors: GPU: unknown vendor; the vendors are NVIDIA, MLU, DCU"),
    ({"moreVendors": [chart_vendor.entry(nvidia.SPEC)]}, "moreVendors: NVIDIA: the chart has this vendor"),
    ({"moreVendors": [{"name": "Acme"}]}, "'/moreVendors/0': missing propert"),
    (
        {"vendors": ["Ascend310P"], "settings": {"devices": {"vnpus": {"configs": [_CHIP]}}}},
        "vendors: Ascend310P: settings.devices.vnpus.configs has no commonWord Ascend310P",
    ),
    (
        {"networkPolicy": {"apiServers": ["10.0.0.1"]}},
        "'/networkPolicy/apiServers/0': '10.0.0.1' does not match pattern",
    ),
    ({"certificate": {"source": "secret"}}, "needs certificate.secretName"),
    ({"webhooks": {"jobs": True}}, "webhooks.jobs: it patches Volcano Jobs for Neuron devices; add AWSNeuron"),
    ({"mode": "policy", "vendors": ["NVIDIA"]}, "mode: policy corrects the Bindings of Volcano's vGPUs alone"),
    (
        {"vendors": ["NVIDIA"], "kubeScheduler": {"enabled": True}},
        "kubeScheduler.image: name the image of kube-scheduler, of the cluster's own Kubernetes release",
    ),
    (
        {**_SCHEDULER, "vendors": ["Volcano-vGPU"]},
        "kubeScheduler.enabled: pods of kube-scheduler get no devices of Volcano-vGPU",
    ),
    ({**_SCHEDULER, "schedulerName": "default-scheduler"}, "schedulerName: default-scheduler is the cluster's own"),
    (
        {**_SCHEDULER, "mode": "policy", "vendors": ["NVIDIA", "Volcano-vGPU"]},
        "kubeScheduler.enabled: it asks the server, and mode policy has none",
    ),
    ({"scheduler": {"replicas": 2}}, "scheduler.replicas: the value is called replicas here"),
    (
        {"scheduler": {"kubeScheduler": {"imageTag": "v1.27.4"}}},
        "scheduler.kubeScheduler.imageTag: the value is called kubeScheduler.image here",
    ),
    ({"scheduler": {"service": {}}}, "scheduler.service: the value is called ports here"),
    ({"devices": {"ascend": {"enabled": True}}}, "devices.ascend.enabled: the value is called vendors here"),
    (
        {"devicePlugin": {"hostPID": True}},
        "devicePlugin.hostPID: no such value in the chart allocator; it is volcano-vgpu.agent.hostPID",
    ),
    (
        {"mluResourceName": "a/b"},
        "mluResourceName: the value is called settings.devices.cambricon.resourceCountName here",
    ),
)
"""The same of ``allocator``."""

REFUSED_BY_THE_UMBRELLA: Final[tuple[tuple[Values, str], ...]] = (
    (
        {"volcano-vgpu": {"deviceConfig": {"nvidia": {"resourceMemoryName": "mine/memory"}}}},
        "volcano-vgpu.deviceConfig.nvidia.resourceMemoryName is mine/memory and "
        "allocator.settings.volcano.deviceConfig.nvidia.resourceMemoryName is volcano.sh/vgpu-memory",
    ),
    ({"volcano_vgpu": {}}, "additional properties 'volcano_vgpu' not allowed"),
    (
        {"devicePlugin": {"deviceSplitCount": 5}},
        "devicePlugin.deviceSplitCount: the value is called volcano-vgpu.agent.settings.deviceSplitCount here",
    ),
    (
        {"deviceSplitCount": 0},
        "deviceSplitCount: the value is called volcano-vgpu.agent.settings.deviceSplitCount here",
    ),
    (
        {"devices": {"nvidia": {"enabled": True}}},
        "devices.nvidia.enabled: the value is called volcano-vgpu.enabled here",
    ),
    (
        {"devices": {"awsneuron": {"enabled": True}}},
        "devices.awsneuron.enabled: the value is called allocator.vendors here",
    ),
    (
        {"devices": {"nvidia": {"gpuCorePolicy": "force"}}},
        "devices.nvidia.gpuCorePolicy: the value is called volcano-vgpu.agent.settings.container.corePolicy here",
    ),
    (
        {"devices": {"ascend": {"image": "a"}}},
        "devices.ascend.image: no such value here; the vendors whose devices",
    ),
    (
        {"scheduler": {"defaultMem": 5000}},
        "scheduler.defaultMem: the value is called allocator.settings.devices.nvidia.defaultMemory (HAMi's scheduler; "
        "Volcano has no such default, and gives the whole card) or volcano-vgpu.agent.settings.defaults.memory",
    ),
    (
        {"devicePlugin": {"migStrategy": "mixed"}},
        "devicePlugin.migStrategy: the value is called volcano-vgpu.agent.settings.mode (mig shares cards by MIG;",
    ),
    (
        {"scheduler": {"kubeScheduler": {"imageTag": "v1.27.4"}}},
        "scheduler.kubeScheduler.imageTag: the value is called allocator.kubeScheduler.image here",
    ),
    ({"scheduler": {"kubeScheduler": {}}}, "scheduler.kubeScheduler: no such value here"),
    ({"schedulerName": "a"}, "schedulerName: the value is called allocator.schedulerName here"),
    (
        {"resourceName": "a/b"},
        "resourceName: the value is called allocator.settings.devices.nvidia.resourceCountName (HAMi's NVIDIA) or",
    ),
    ({"neuron-topology": {"enabled": True}}, "neuron-topology.enabled: no such value here; the server is the"),
    (
        {"volcano-vgpu": {"allocator": {"mode": "webhook"}}},
        "allocator.mode: no such value here; the server is the chart allocator",
    ),
)
"""The same of the umbrella."""
