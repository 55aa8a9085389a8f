"""Where partitions are worked on: in this process, by others of the machine, or by a cluster."""
