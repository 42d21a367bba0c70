"""The memory scheduler: from a tile graph to a plan of transfers, addresses and times."""
