"""What a container gets: its environment and its mounts."""
