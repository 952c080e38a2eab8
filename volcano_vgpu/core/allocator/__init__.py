"""What the allocator has to know about Volcano's vGPUs."""
