"""The cluster's API, as far as acting needs it: one small client, and what is done through it."""
