"""From virtual instructions to a scheduled, register-allocated Atlas program."""
