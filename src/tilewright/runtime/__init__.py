"""Running programs: the files they read and write."""
