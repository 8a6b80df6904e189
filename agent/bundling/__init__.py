"""A ticket's worth of evidence about one finding: gathered, redacted, packed."""
