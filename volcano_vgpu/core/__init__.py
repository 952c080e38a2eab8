"""The pure part: what the agent, the monitor and the allocator decide about Volcano's vGPUs."""
