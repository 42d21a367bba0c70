"""The parts of the assembler: tokens, expressions, pseudo instructions, data, statements."""
