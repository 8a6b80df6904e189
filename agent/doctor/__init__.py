"""One look at this node: the agent's own probes and rules, once, and what they cannot see."""
