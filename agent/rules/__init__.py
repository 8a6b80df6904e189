"""The rules: one file per documented symptom, registered here by name."""
