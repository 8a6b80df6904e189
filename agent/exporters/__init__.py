"""What the agent shows: Prometheus, OpenTelemetry, the JSON API and the page, all read-only."""
