"""Texts that a redacted snapshot keeps: the one list that the redaction, its documentation and its command read.

A text stays only if it is a word of this list, is built of such words and short numbers, or has one of the forms. The
words belong to products and to Kubernetes, so that they name no person, team, site or machine.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Final, NamedTuple

from hami_plugins.engine.policies import DEVICE_POLICY_KEY, NODE_POLICY_KEY, NUMA_BIND_KEY
from hami_plugins.engine.registry import Registry
from hami_plugins.wire import gang_keys, scoring_weights

MODELS: Final = """
    A10 A100 A10G A16 A2 A30 A40 A800 A2000 A4000 A4500 A5000 A5500 A6000 Ada Ampere B100 B200 B300 Blackwell GB10 GB200
    GB300 GeForce GH200 Grace H100 H20 H200 H800 Hopper HBM HBM2 HBM2e HBM3 HBM3e K80 L2 L20 L4 L40 L40G L40S M10 M40
    M60 MIG NVIDIA NVL NVLink NVSwitch OAM P100 P4 P40 PCI PCIe PRO Pascal Quadro RTX SXM SXM2 SXM3 SXM4 SXM5 SXM6 T1000
    T4 T400 T4G Tesla Ti Titan Turing V100 V100S Volta XP GTX Super Laptop Server Edition Workstation Generation GPU
    vGPU gfx AMD Instinct Radeon MI100 MI210 MI250 MI250X MI300A MI300X MI308X MI325X MI350X MI355X
    Ascend Atlas 310 310P 310P3 910 910A 910B 910B1 910B2 910B2C 910B3 910B4 910C 910 NPU 800T 800I A3 duo
    Cambricon MLU MLU270 MLU290 MLU370 MLU370-S4 MLU370-X4 MLU370-X8 MLU580 MLU590 X4 X8 S4 M8 H8 smlu sMLU
    Hygon DCU Z100 Z100L K100 K100_AI BW1000 AI
    Enflame GCU S60 i20 T20 T21 drs Iluvatar MR-V50 MR-V100 BI-V100 BI-V150 BI MR V50 V150
    Kunlun kunlunxin XPU P800 R200 R300 K200 OAM Metax MXC500 MXC550 C500 C500X C550 N260 MXN260 SGPU
    Mthreads S2000 S3000 S4000 S5000 MTT Vastai VA1 VA16 VA10 SV102 AIC VF Biren Biren100 Biren104 Biren106 Biren110
    Biren166 Biren166M BR100 BR104 BR106 BR166
    AWS Neuron AWSNeuron Inferentia Inferentia2 Trainium Trainium2 inf1 inf2 trn1 trn1n trn2 trn2u trn3
    """
"""Names of devices and vendors, and the parts of composed names."""

STATES: Final = """
    Pending Running Succeeded Failed Unknown Active Terminating Inqueue Completed Open Closed Closing Bound Available
    True False true false yes no on off none None null enabled disabled success allocating allocated failed
    Ready MemoryPressure DiskPressure PIDPressure NetworkUnavailable AcceleratedHardwareReady NeuronHealth
    KubeletReady KubeletNotReady NodeStatusUnknown KubeletHasSufficientMemory KubeletHasInsufficientMemory
    KubeletHasNoDiskPressure KubeletHasDiskPressure KubeletHasSufficientPID KubeletHasInsufficientPID
    NeuronHasError NeuronHasNoError NeuronHasErrors NeuronHealthy DevicePluginReady
    NoSchedule PreferNoSchedule NoExecute Equal Exists In NotIn DoesNotExist Gt Lt DoNotSchedule ScheduleAnyway Honor
    DisruptionTarget PreemptionByScheduler EvictionByEvictionAPI DeletionByTaintManager TerminationByKubelet
    Ignore Always OnFailure Never PreemptLowerPriority Requesting Reported Deleted UTC Healthy Unhealthy
    NodeClassReady ValidationSucceeded NodeRegistrationHealthy SubnetsReady SecurityGroupsReady AMIsReady
    InstanceProfileReady CapacityReservationsReady PlacementGroupReady Backoff active expiring reserved
    BestEffort NotBestEffort NotTerminating PriorityClass CrossNamespacePodAffinity VolumeAttributesClass
    """
"""States, operators and effects of Kubernetes, Volcano and the node agents."""

VOCABULARY: Final = """
    hami-core mig mps hami exclusive share shared whole binpack spread mutex numa topology-aware slot core memory cores
    best-effort fixed-share burst-share online offline die card Restricted ApplyForAll RequestsAsCount Device PCIe
    NUMANode Node SamePCIe DeviceLevel PCIeLevel Strict NonStrict hccs HCCS gpu rdma fpga xpu npu dcu gcu mlu neuron
    nvidia amd huawei aws ascend cambricon hygon volcano koordinator iluvatar metax mthreads vastai enflame biren
    linux windows amd64 arm64 arm ppc64le s390x riscv64 spot on-demand on_demand capacity-block dedicated
    aws-device linked fours-and-eights singles pairs default vir01 vir02 vir02_1c vir03_1c_8g vir04 vir04_3c
    vir04_3c_ndvpp vir04_4c_dvpp vir05_1c_8g vir05_1c_16g vir06_1c_16g vir08 vir10_3c_16g vir10_3c_16g_nm
    vir10_3c_32g vir10_4c_16g_m vir12_3c_32g vir16 ndvpp dvpp nm cambricon-mlu enflame-drs
    DaemonSet ReplicaSet StatefulSet EC2NodeClass NodeClass CAPACITY_BLOCK
    p4d p4de p5 p5e p5en p6-b200 g4dn g5 g6 g6e trn inf p g
    xlarge 2xlarge 3xlarge 4xlarge 6xlarge 8xlarge 12xlarge 16xlarge 24xlarge 32xlarge 48xlarge
    """
"""Modes, policies, families of sets, kinds of devices and of controllers."""

MEMBERS: Final = """
    AIC DeviceStrategy NetworkID allocateStrategy allocatePolicy allocated allocationScore bdf busID capacity compute
    computeInstanceID connected_to containerIndex containers core cores count custominfo deviceIndex deviceTypes
    devicepairscore devices devicevendor devcore devmem doubts driver effect exactMatch exclusivePolicy extension
    gpuInstanceID gpuLinkType gpuSharedResourceTemplate gpuUUID group groups health healthy id index
    instanceID instanceUUID key labelSelector labels linkZone links lnc logical_neuroncore_config matchExpressions
    matchLabels members memory memoryMB memory_size migProfiles migUUID minor minors mode model mlas name nc_count
    neuron_device neuron_processes neuroncore_ids nodeID numa numa_node operator pcieID placement placements process
    profile profileID profileName profiles qosPolicy regexMatch request requiredScope requiredTopologyScope resources
    ringBusBandwidth score selector size sliceCount socketID start status template totalCompute totalDevCount totalVRam
    type uuid value values vRam vfSelector vfs NEURON DEVICE DEVICES CORES MEMORY CONNECTED BDF PCI GB MB
    BUS NODE PID COMMAND RUNTIME AFFINITY CPU links repaired
    """
"""Members of the JSON documents and titles of the tables that annotations hold."""

SCHEDULERS: Final = ("default-scheduler", "hami-scheduler", "koord-scheduler", "volcano")
RUNTIMES: Final = ("hami", "hami-core", "kata", "nvidia", "nvidia-cdi", "nvidia-legacy", "runc")
CLASSES: Final = ("system-cluster-critical", "system-node-critical")
ATTRIBUTES: Final = (
    "allowMultipleAllocations", "architecture", "attributes", "brand", "capacity", "cores", "cudaComputeCapability",
    "device", "driver", "driverVersion", "false", "in", "index", "memory", "model", "null", "numa", "pcieRoot",
    "productName", "slots", "true", "type", "uuid",
)  # fmt: skip
"""Names of attributes and capacities of devices, and words of the expressions that choose by them; sorted."""

NAMESPACES: Final = ("default", "kube-system")
QUEUES: Final = ("default", "root")

VARIABLES: Final = (
    "ASCEND_VISIBLE_DEVICES", "CAMBRICON_VISIBLE_DEVICES", "CUDA_DEVICE_MEMORY_LIMIT", "CUDA_DEVICE_SM_LIMIT",
    "CUDA_DISABLE_CONTROL", "CUDA_OVERSUBSCRIBE", "CUDA_TASK_PRIORITY", "CUDA_VISIBLE_DEVICES", "GCU_VISIBLE_DEVICES",
    "GPU_CORE_UTILIZATION_POLICY", "HIP_DEVICE_MEMORY_LIMIT", "HIP_VISIBLE_DEVICES", "HSA_CU_MASK",
    "NEURON_RT_NUM_CORES", "NEURON_RT_VISIBLE_CORES", "NPU_MEM_QUOTA",
    "NVIDIA_DRIVER_CAPABILITIES", "NVIDIA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "SOL_CONTINER_NAME",
)  # fmt: skip
"""Variables that rules read; the names of other variables are left out."""

KINDS: Final = (
    "v1", "resource.k8s.io", "scheduling.k8s.io", "scheduling.volcano.sh", "scheduling.koordinator.sh",
    "scheduling.sigs.k8s.io", "scheduling.x-k8s.io", "karpenter.sh", "karpenter.k8s.aws", "eks.amazonaws.com",
)  # fmt: skip
"""Groups of APIs; versions such as ``v1beta1`` stay."""

RESOURCES: Final = (
    "nodes", "habana.ai/gaudi", "vpc.amazonaws.com/pod-eni",
    "cpu", "memory", "pods", "ephemeral-storage", "storage", "persistentvolumeclaims", "services", "secrets",
    "configmaps", "replicationcontrollers", "resourcequotas", "vpc.amazonaws.com/efa", "nvidia.com/gpu.shared",
    "aws.amazon.com/neurondevice", "koordinator.sh/rdma", "koordinator.sh/fpga", "koordinator.sh/gpu-memory-ratio",
    "huawei.com/npu-core", "huawei.com/npu-cpu", "huawei.com/npu-dvpp", "kubernetes.io/gpu", "kubernetes.io/gpu-core",
    "kubernetes.io/gpu-memory", "kubernetes.io/gpu-memory-ratio", "kubernetes.io/rdma", "kubernetes.io/fpga",
    "kubernetes.io/batch-cpu", "kubernetes.io/batch-memory", "amd.com/gpu", "dcu.com/gpu", "intel.com/gpu",
    "gpu.intel.com/i915", "google.com/tpu", "hami.io/gpu",
)  # fmt: skip

LABELS: Final = (
    "app", "gpu", "ascend", "mlu", "dcu", "zone", "region", "role",
    "app.kubernetes.io/component", "app.kubernetes.io/instance", "app.kubernetes.io/managed-by",
    "app.kubernetes.io/name", "app.kubernetes.io/part-of", "app.kubernetes.io/version",
    "batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-completion-index", "batch.kubernetes.io/job-name",
    "beta.kubernetes.io/arch", "beta.kubernetes.io/instance-type", "beta.kubernetes.io/os", "controller-revision-hash",
    "controller-uid", "failure-domain.beta.kubernetes.io/region", "failure-domain.beta.kubernetes.io/zone", "job-name",
    "kubernetes.io/arch", "kubernetes.io/hostname", "kubernetes.io/metadata.name", "kubernetes.io/os",
    "node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master", "node-role.kubernetes.io/worker",
    "node.kubernetes.io/disk-pressure", "node.kubernetes.io/exclude-from-external-load-balancers",
    "node.kubernetes.io/instance-type", "node.kubernetes.io/memory-pressure", "node.kubernetes.io/network-unavailable",
    "node.kubernetes.io/not-ready", "node.kubernetes.io/out-of-service", "node.kubernetes.io/pid-pressure",
    "node.kubernetes.io/unreachable", "node.kubernetes.io/unschedulable", "node.cloudprovider.kubernetes.io/shutdown",
    "node.cloudprovider.kubernetes.io/uninitialized", "pod-template-generation", "pod-template-hash",
    "statefulset.kubernetes.io/pod-name", "apps.kubernetes.io/pod-index", "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone", "eks.amazonaws.com/capacityType", "eks.amazonaws.com/nodegroup",
    "karpenter.sh/capacity-type", "karpenter.sh/nodepool", "karpenter.k8s.aws/instance-category",
    "karpenter.k8s.aws/instance-cpu", "karpenter.k8s.aws/instance-family", "karpenter.k8s.aws/instance-generation",
    "karpenter.k8s.aws/instance-memory", "karpenter.k8s.aws/instance-size", "hami-plugins.io/capacity-block-end",
    "karpenter.k8s.aws/capacity-reservation-id", "karpenter.k8s.aws/capacity-reservation-type",
    "alpha.eksctl.io/nodegroup-name", "k8s.amazonaws.com/accelerator",
    "node.kubernetes.io/node-group", "topology.k8s.aws/network-node-layer-1", "topology.k8s.aws/network-node-layer-2",
    "topology.k8s.aws/network-node-layer-3", "topology.k8s.aws/zone-id", "topology.ebs.csi.aws.com/zone",
    "neuron.amazonaws.com/ultraserver-server-id-2", "neuron.amazonaws.com/ultraserver-node-id-2",
    "neuron.amazonaws.com/ultraserver-server-id-4", "neuron.amazonaws.com/ultraserver-node-id-4",
    "aws.amazon.com/neuron.product", "aws.amazon.com/neuron.present", "cloud.google.com/gke-accelerator",
    "cloud.google.com/gke-nodepool", "kubernetes.azure.com/agentpool", "kubernetes.azure.com/cluster",
    "nvidia.com/cuda.driver.major", "nvidia.com/cuda.driver.minor", "nvidia.com/cuda.runtime.major",
    "nvidia.com/cuda.runtime.minor", "nvidia.com/gfd.timestamp", "nvidia.com/gpu", "nvidia.com/gpu.clique",
    "nvidia.com/gpu.compute.major", "nvidia.com/gpu.compute.minor", "nvidia.com/gpu.count", "nvidia.com/gpu.family",
    "nvidia.com/gpu.machine", "nvidia.com/gpu.memory", "nvidia.com/gpu.present", "nvidia.com/gpu.product",
    "nvidia.com/gpu.replicas", "nvidia.com/gpu.sharing-strategy", "nvidia.com/mig.capable", "nvidia.com/mig.config",
    "nvidia.com/mig.strategy", "nvidia.com/mps.capable", "hami.io/webhook", "hami.io/gpu-scheduler-policy",
    "volcano.sh/job-name", "volcano.sh/job-namespace", "volcano.sh/task-index", "volcano.sh/job-retry-count",
    "volcano.sh/job-version", "volcano.sh/preemptable", "volcano.sh/revocable-zone", "volcano.sh/template-uid",
    "koordinator.sh/gpu-isolation-provider", "koordinator.sh/priority", "koordinator.sh/qosClass",
    "node.koordinator.sh/gpu-model", "node.koordinator.sh/gpu-vendor", "node.koordinator.sh/gpu-partition-policy",
    "quota.scheduling.koordinator.sh/name", "scheduling.koordinator.sh/scheduler-name",
    "hami-plugins.io/neuron-sets", "gpu-uuid",
    gang_keys.GROUP_KEY, gang_keys.VOLCANO_GROUP_KEY, gang_keys.COSCHEDULING_LABEL, gang_keys.KOORDINATOR_GROUP_LABEL,
    gang_keys.KOORDINATOR_OLD_GROUP_LABEL, gang_keys.KOORDINATOR_GANG_KEY, gang_keys.KOORDINATOR_LEAST_KEY,
    gang_keys.KOORDINATOR_MODE_KEY, gang_keys.QUEUE_KEY, gang_keys.QUEUE_GATE_KEY, gang_keys.JOB_QUEUE_KEY,
    gang_keys.TASK_KEY, gang_keys.TASK_INDEX_KEY, gang_keys.MIN_MEMBER_KEY, NODE_POLICY_KEY, DEVICE_POLICY_KEY,
    NUMA_BIND_KEY, scoring_weights.KEY, "volcano.sh/vgpu-node", "hami.io/vgpu-node", "mthreads.com/predicate-node",
    "aws.amazon.com/predicate-node",
)  # fmt: skip
"""Keys of labels, annotations and taints that products document."""

DOMAINS: Final = (
    "alpha.eksctl.io", "amazonaws.com", "amd.com", "app.kubernetes.io", "aws.amazon.com", "batch.kubernetes.io",
    "birentech.com", "cambricon.com", "eks.amazonaws.com", "enflame.com", "feature.node.kubernetes.io",
    "gang.scheduling.koordinator.sh", "hami-plugins.io", "hami.io", "huawei.com", "hygon.com", "iluvatar.ai",
    "intel.com", "karpenter.k8s.aws", "karpenter.sh", "koordinator.sh", "kubernetes.io", "kunlunxin.com",
    "metax-tech.com", "mthreads.com", "neuron.amazonaws.com", "node-role.kubernetes.io", "node.koordinator.sh",
    "node.kubernetes.io", "nvidia.com", "scheduling.k8s.io", "scheduling.koordinator.sh", "scheduling.volcano.sh",
    "topology.k8s.aws", "topology.kubernetes.io", "vastaitech.com", "volcano.sh", "vpc.amazonaws.com",
)  # fmt: skip
"""Domains that stay in front of a name that does not."""

NUMBERED: Final = tuple(
    name
    for name in LABELS
    if name.startswith(
        (
            "nvidia.com/",
            "karpenter.k8s.aws/",
            "hami-plugins.io/",
            "apps.kubernetes.io/",
            "volcano.sh/task-index",
            "gang.scheduling",
        )
    )
)
"""Labels whose numbers stay. Other labels' whole numbers become their rank, so that Gt and Lt answer the same."""

FORMS: Final[Mapping[str, str]] = {
    "whole numbers and decimals": r"[+-]?\d{1,20}(?:\.\d{1,9})?",
    "amounts of Kubernetes": r"[+-]?\d{1,20}(?:\.\d{1,9})?(?:[EPTGMKkmun]i?|[eE][+-]?\d{1,3})",
    "ranges of small numbers": r"\d{1,4}[-_]\d{1,4}(?:_\d{1,4})?",
    "times": r"\d{4}-\d\d-\d\d(?:T\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?)?(?:Z|[+-]\d\d:\d\d)?|\d{4}\.\d\d\.\d\d",
    "durations": r"(?:\d{1,9}[dhms]){1,4}",
    "MIG profiles": r"\d{1,2}g\.\d{1,3}gb(?:\+me|\.me)?",
    "instance types of AWS": r"[a-z]{1,4}\d{1,2}[a-z]{0,4}\.(?:\d{1,3}x?large|(?:nano|micro|small|medium|large|xlarge)"
    r"|metal(?:-\d{1,3}xl)?|\d{1,3}xlarge)",
}
"""Texts that stay whatever they say, as whole words."""

_PART: Final = re.compile(r"\d{1,4}(?:[gG][bB]?|[xX]|[cC]|[bB])?|group\d{0,3}", re.ASCII)
_JOINTS: Final = re.compile(r"[-_./]")
_ADDRESS: Final = re.compile(r"\d+\.\d+\.\d+\.\d+", re.ASCII)
_QUOTA: Final = re.compile(r"(requests\.|limits\.|count/)?(.*)", re.DOTALL)
_PATTERNED: Final = re.compile(r"hugepages-\d{1,5}(?:Ki|Mi|Gi)|nvidia\.com/mig-\d{1,2}g\.\d{1,3}gb(?:\.me)?", re.ASCII)


class ListSection(NamedTuple):
    """A part of the list: what its words are, and the words."""

    title: str
    words: tuple[str, ...]


class Published:
    """The list for the vendors of a registry, and the questions that the redaction asks it."""

    def __init__(self, registry: Registry) -> None:
        named = {spec.name for spec in registry} | {spec.wire_word() for spec in registry}
        self.models = _texts(MODELS) | named
        self.keys = frozenset(LABELS) | {key for spec in registry for key in spec.keys.all()} | {"assigned-containers"}
        self.resources = frozenset(RESOURCES) | {name for spec in registry for name in spec.resources.all()}
        self.domains = frozenset(DOMAINS) | {
            name.partition("/")[0] for spec in registry for name in spec.resources.all() if "/" in name
        }
        self._words = frozenset(
            word.lower() for text in (STATES, VOCABULARY, MEMBERS) for word in _texts(text)
        ) | frozenset(word.lower() for word in self.models)
        self._forms = re.compile("|".join(f"(?:{form})" for form in FORMS.values()), re.ASCII)
        self._asked: dict[str, bool] = {}

    def sections(self) -> tuple[ListSection, ...]:
        """The list as people read it."""
        return tuple(
            ListSection(title, tuple(sorted(words, key=lambda word: (word.lower(), word))))
            for title, words in (
                ("Names of resources", self.resources),
                ("Keys of labels, annotations and taints", self.keys),
                ("Domains in front of other keys and resources", self.domains),
                ("Models and vendors of devices", self.models),
                ("States, operators and effects", _texts(STATES)),
                ("Modes, policies and kinds of devices", _texts(VOCABULARY)),
                ("Members of documents in annotations", _texts(MEMBERS)),
                ("Groups of APIs", frozenset(KINDS)),
                ("Schedulers", frozenset(SCHEDULERS)),
                ("Runtime classes", frozenset(RUNTIMES)),
                ("Priority classes", frozenset(CLASSES)),
                ("Namespaces", frozenset(NAMESPACES)),
                ("Queues", frozenset(QUEUES)),
                ("Attributes and capacities of devices for claims", frozenset(ATTRIBUTES)),
                ("Names of variables", frozenset(VARIABLES)),
                ("Forms, as regular expressions", frozenset(FORMS.values())),
            )
        )

    def is_word(self, text: str) -> bool:
        """Whether a text stays: a word, a form, or words and short numbers with joints between them."""
        known = self._asked.get(text)
        if known is None:
            known = self._asked[text] = self._is_word(text)
        return known

    def _is_word(self, text: str) -> bool:
        if text.lower() in self._words or text in self.resources or text in self.keys or not text:
            return True
        if self._forms.fullmatch(text):
            return True
        if _ADDRESS.search(text):
            return False
        parts = _JOINTS.split(text)
        return any(part and not part.isdigit() for part in parts) and all(
            not part or part.lower() in self._words or _PART.fullmatch(part) for part in parts
        )

    def is_part_of_a_model(self, text: str) -> bool:
        """Whether a text names models by a piece of a published word, as ``use-gputype: A10`` does."""
        return all(any(part in word for word in self._lower_models) for part in _JOINTS.split(text.lower()) if part)

    @cached_property
    def _lower_models(self) -> tuple[str, ...]:
        return tuple(word.lower() for word in self.models)

    def is_key(self, key: str) -> bool:
        """Whether the key of a label, an annotation or a taint stays."""
        return key in self.keys or self.is_resource(key)

    def is_resource(self, name: str) -> bool:
        """Whether the name of a resource stays, also as a quota writes it."""
        match = _QUOTA.fullmatch(name)
        plain = name if match is None else match[2]
        return plain in self.resources or _PATTERNED.fullmatch(plain) is not None

    @cached_property
    def anchors(self) -> tuple[str, ...]:
        """Where unknown keys are sorted in: the published domains, and the published keys without a domain."""
        plain = {name for name in (*self.keys, *self.resources) if "/" not in name}
        return tuple(sorted(plain | self.domains))

    @cached_property
    def by_domain(self) -> Mapping[str, tuple[str, ...]]:
        """The published keys and resources of each domain, sorted."""
        found: dict[str, list[str]] = {domain: [] for domain in self.domains}
        for name in sorted(self.keys | self.resources):
            found.setdefault(name.partition("/")[0], []).append(name)
        return {domain: tuple(names) for domain, names in found.items()}


def _texts(text: str) -> frozenset[str]:
    return frozenset(text.split())


def markdown(sections: Iterable[ListSection]) -> str:
    """The list as a table for the documentation."""
    lines = ["| what they are | words |", "| --- | --- |"]
    for section in sections:
        words = ", ".join(f"`{word}`" for word in section.words).replace("|", "\\|")
        lines.append(f"| {section.title} | {words} |")
    return "\n".join(lines)
