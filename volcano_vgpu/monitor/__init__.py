"""What containers really use of their cards, read from the files in which HAMi-core books it (``shared-region.md``)."""
