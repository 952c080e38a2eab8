"""HAMi-core on a node: its library, and the directories that containers with it share."""
