"""A node whose GPU falls off the bus, and the one thing that its agent may do about it."""

CONFIG = """
node: {{name: n1}}
actions:
  mode: {mode}
  token: hush
  opt_out: {folder}/hold
  ladders:
    touch: [{{action: command, promise: 10s, hold: 1}}]
  policy: {{gpu-xid/xid-79: touch}}
  commands:
    node=n1: {{argv: [touch, "{folder}/done"]}}
"""
XID = "NVRM: Xid (PCI:0000:41:00): 79, pid=1234, name=python, GPU has fallen off the bus."
