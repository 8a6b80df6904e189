"""The agent: window, rules, findings, exporters, command line."""
