"""From a finding to a safe next step: policy, guard, levers, verification and audit."""
