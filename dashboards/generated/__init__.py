"""The dashboards as Grafana imports them."""
