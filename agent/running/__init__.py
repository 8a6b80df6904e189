"""Starting a training command with the hooks in it: `gpudiag run`."""
