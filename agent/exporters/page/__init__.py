"""The page at `/`: what is wrong, how we know and what to do next, for the person on call."""
