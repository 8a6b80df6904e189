"""The NVIDIA driver, read through NVML by a child process; `probe.Nvml` is the agent's side.

`python -m gpudiag.probes.nvml` is the child. It imports the standard library and pynvml only.
"""
