"""A component for ``torchx run``: distributed training on Trainium and Inferentia.

TorchX reads this file by itself (``torchx run $(hami-plugins neuron component):ddp ...``), so that no registration is
needed, which would hide TorchX' own components. It requires the types of arguments spelled as they are here.
"""

from typing import Dict, List, Optional

from torchx import specs

from neuron_topology.torchx import training


def ddp(
    *script_args: str,
    image: str,
    script: Optional[str] = None,
    m: Optional[str] = None,
    name: str = "/",
    h: str = "neuron_trn1.32xlarge",
    j: str = "1",
    env: Optional[Dict[str, str]] = None,
    max_retries: int = 0,
    rdzv_port: int = 29500,
    rdzv: str = "",
    mounts: Optional[List[str]] = None,
    cache: str = "",
    precompile: bool = False,
    bf16: bool = False,
    tier: str = "",
    lnc: int = 0,
) -> specs.AppDef:
    """Distributed data parallel training on Neuron devices, with a c10d rendezvous in the first pod.

    Args:
        script_args: arguments of the script
        image: container image
        script: script to run in the image
        m: module to run instead of a script
        name: {experiment}/{run}, the script's name by default
        h: named resource of each pod, a machine or a part of one: neuron_trn1.32xlarge, neuron_trn1.32xlarge_4, ...
            (parts of 2 on trn1 and trn2 are for node pools with hami-plugins.io/neuron-sets=linked)
        j: [{least pods}:]{pods}[x{processes}]; a process for each NeuronCore unless it says otherwise
        env: environment variables
        max_retries: how often the job starts again
        rdzv_port: port of the rendezvous on the first pod
        rdzv: a rendezvous service of yours instead, BACKEND://HOST:PORT: etcd-v2://etcd-server:2379
        mounts: as for dist.ddp: type=volume,src=claim,dst=/data
        cache: claim of a volume for compiled graphs, shared by all pods and by later jobs; one that mounts names as
            well is mounted once, with the graphs in its folder neuron-cache; or a path inside of a mount
        precompile: only compile the graphs (neuron_parallel_compile), which fills the cache for the real run
        bf16: compute in bfloat16
        tier: widest part of the network that the pods may span (ultraserver-4, network-layer-3, ..., zone)
        lnc: physical cores that act as one, 1 or 2, on trn2 and later; the pods ask for whole devices, so that each may
            have its own
    """
    return training.app(
        script_args,
        training.TrainingJob(
            image=image,
            script=script,
            module=m,
            name=name,
            resource=h,
            shape=j,
            env=env or {},
            max_retries=max_retries,
            rdzv_port=rdzv_port,
            rdzv=rdzv,
            mounts=tuple(mounts or ()),
            cache=cache,
            precompile=precompile,
            bf16=bf16,
            tier=tier,
            lnc=lnc,
        ),
    )
