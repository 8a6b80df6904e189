"""From a finding to the one plan that may follow it, or the reason why none does."""

from __future__ import annotations

import hashlib

from gpudiag.agent.actions.contract import Plan
from gpudiag.agent.actions.policy import Ladder, Step
from gpudiag.agent.findings.finding import Finding
from gpudiag.agent.rules.contract import UNDETERMINED

JOB_ACTIONS = frozenset(
    {
        *("snapshot", "dump_stacks", "gc", "empty_cache", "set_memory_fraction", "micro_batch"),
        *("checkpoint", "checkpoint_and_exit", "restart_workers"),
    }
)
"""Taken by a training job; all else is taken by a server, else by the node."""

SERVER_ACTIONS = frozenset(
    {"flush_cache", "pause_server", "unready", "unload_model", "restart_container", "gateway"}
)


def not_to_act_on(finding: Finding) -> str:
    """Why a finding must not lead to any action, whatever its ladder; "" where it may."""
    if finding.state != "firing":
        return f"the finding is {finding.state}"
    if finding.cause == UNDETERMINED:
        return "the cause is undetermined"
    if finding.explained_by:
        return f"it is a consequence of {finding.explained_by}"
    if finding.stale_since is not None:
        return "its input is stale"
    return ""


def plan_for(
    finding: Finding, ladder: Ladder, step: int, attempt: int, node: str, now: float
) -> Plan | str:
    """The plan for step `step` (from 0) of the ladder, or why there is none."""
    if why := not_to_act_on(finding):
        return why
    if not ladder:
        return "the policy leaves this cause to people"
    if step >= len(ladder):
        return "every step of the ladder was taken"
    rung = ladder[step]
    target = target_of(finding, rung.action, node)
    if not target:
        return f"{rung.action} needs a job or a server, and the finding names none"
    return Plan(
        id=plan_id(finding, rung, step, attempt),
        finding=finding.id,
        symptom=finding.symptom,
        cause=finding.cause,
        subject=finding.subject,
        target=target,
        action=rung.action,
        rung=rung.rung,
        args=dict(rung.args),
        carry=rung.carry,
        promise=rung.promise,
        step=step,
        attempt=attempt,
        reason=finding.summary,
        made_at=now,
    )


def target_of(finding: Finding, action: str, node: str) -> str:
    """What must not be acted on twice at a time, as `job=llama` or `node=n1`; "" where unnamed."""
    subject = dict(finding.subject)
    if action in JOB_ACTIONS:
        return f"job={subject['job']}" if "job" in subject else ""
    if action in SERVER_ACTIONS:
        return f"server={subject['server']}" if "server" in subject else ""
    for key in ("server", "job"):
        if key in subject:
            return f"{key}={subject[key]}"
    # What a node runs besides is nobody's to evict.
    return "" if action == "evict_pod" else f"node={node}"


def plan_id(finding: Finding, step: Step, index: int, attempt: int) -> str:
    """The same plan has the same id, also when it is made again after a crash."""
    text = f"{finding.id}|{finding.raised_at}|{index}|{step.action}|{attempt}"
    return hashlib.sha256(text.encode()).hexdigest()[:16]
