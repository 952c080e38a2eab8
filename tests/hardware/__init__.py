"""What only a machine with an NVIDIA card can show: ``python -m tests.hardware --help``."""
