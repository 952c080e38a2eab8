"""The server that decides which devices a pod gets: extenders, webhooks, sessions, audit."""
