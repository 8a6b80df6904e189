"""The runbook pages, one per symptom, shipped as data."""
