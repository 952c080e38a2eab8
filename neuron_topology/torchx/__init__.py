"""What TorchX is given: resources by name, a component, and the way from there to a job that Volcano can place.

Only ``named``, ``component`` and ``driving`` need TorchX itself (``pip install '.[torchx]'``).
"""
