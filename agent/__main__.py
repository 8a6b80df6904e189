"""`python -m gpudiag.agent` is `gpudiag`."""

from gpudiag.agent.cli import main

main()
