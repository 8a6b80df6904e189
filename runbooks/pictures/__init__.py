"""What the page and the dashboards look like: pictures of replayed incidents."""
