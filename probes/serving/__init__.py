"""Inference servers: their metric pages, their health, and whether they answer right."""
