"""What torch's memory holds, where it was asked for, what grows and why: from snapshots alone."""
