"""What the allocator has to know about Neuron devices."""
