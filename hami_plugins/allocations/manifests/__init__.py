"""What an operator installs for the allocator: webhooks, the admission policy, the schedulers' configuration."""
