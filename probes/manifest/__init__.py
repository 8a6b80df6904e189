"""What a job runs in, written down: driver, packages, variables, image, GPUs; and its weights."""
