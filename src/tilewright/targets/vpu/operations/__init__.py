"""What tasks compute, bit for bit: the table of task operations and the arithmetic behind it."""
