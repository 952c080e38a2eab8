"""What containers really use of their cards, read from the files in which HAMi-core books it (HAMi-core
``src/multiprocess/multiprocess_memory_limit.h``)."""
