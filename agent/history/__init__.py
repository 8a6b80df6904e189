"""What a Prometheus already knows: asked for, read as our words, judged by the same rules."""
