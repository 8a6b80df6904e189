"""Grafana dashboards as code; `python -m gpudiag.dashboards` writes those in `generated/`."""
