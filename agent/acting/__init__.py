"""Acting in the live agent: what the director asks of it, and what it is given to act with."""
