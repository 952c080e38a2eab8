"""Our own snapshot files: what is kept of each object, and names replaced by pseudonyms."""
