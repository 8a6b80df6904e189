"""From a suspected leak to its line of code: short recordings in the process, asked for once."""
