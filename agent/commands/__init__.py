"""One file per command: thin, each with `command`; the work is done elsewhere."""
