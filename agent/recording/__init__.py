"""What was seen on a node, kept: incident files for people, recordings for machines."""
