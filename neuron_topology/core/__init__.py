"""The pure part: hardware, sets, nodes, jobs, gangs, HyperNodes, and what the allocator has to know."""
