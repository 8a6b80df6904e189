"""Prometheus alert rules as code; `python -m gpudiag.alerts` writes those in `generated/`."""
