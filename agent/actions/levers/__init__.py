"""What can be done to a job, a server, a pod or a node: one small file per kind of target."""
