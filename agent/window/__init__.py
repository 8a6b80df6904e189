"""The window: what a rule may look at."""

from gpudiag.agent.window.window import Point, Series, Window

__all__ = ["Point", "Series", "Window"]
