"""Device plugins as peers: they read and write what the real ones do, in the same order, and touch no hardware.

| module | plugin | source of its steps |
| --- | --- | --- |
| ``hami`` | NVIDIA | ``upstream.md hami-core 1.8, 2.5, 7.3, 7.4``; before HAMi 2.10 with other ``phases`` |
| ``hami`` | Ascend | ``upstream.md hami-vendors 3.10`` |
| ``early`` | Hygon | ``upstream.md hami-vendors 4.3`` |
| ``early`` | NVIDIA, HAMi 2.4 | ``upstream.md hami-core 7.3``: the commit that Hygon's plugin was made from |
| ``cambricon`` | Cambricon | ``upstream.md hami-vendors 2.8`` |
| ``neuron`` | AWS's, for the real kubelet | the annotations that AWS's scheduler extension writes for it |
| ``kubelets`` | the kubelets that ask them | ``trials.md`` K1 to K13 |
"""
