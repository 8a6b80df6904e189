"""Pure calculations that rules share: no clock, no I/O, no state."""
