"""Images, from a Dockerfile or without any registry."""
