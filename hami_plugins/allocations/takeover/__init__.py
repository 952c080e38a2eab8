"""What is missing or in the way before, during and after the allocator takes over from a running HAMi."""
