"""What is said to pods that want to come in: other words, limits, refusals."""
