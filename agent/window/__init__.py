"""The window: what a rule may look at."""

from gpudiag.agent.window.answers import Point, Series
from gpudiag.agent.window.window import Window

__all__ = ["Point", "Series", "Window"]
