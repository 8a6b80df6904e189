"""What programs wrote into their logs: files and container logs followed, known lines as events."""
