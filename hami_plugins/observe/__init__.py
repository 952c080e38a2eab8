"""What a process tells about itself: logs and metrics."""
