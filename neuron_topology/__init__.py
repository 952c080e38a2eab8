"""Trainium and Inferentia: devices that are really wired together, on any scheduler, for jobs of TorchX and Volcano."""
