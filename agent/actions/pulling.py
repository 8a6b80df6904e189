"""Pulls a lever; one that breaks has failed, and nothing else does."""

from __future__ import annotations

import logging
from collections.abc import Callable

from gpudiag.agent.actions.contract import Ending, Plan, Result

log = logging.getLogger(__name__)


def pulled(work: Callable[[Plan], Result], plan: Plan) -> Result:
    """What the lever reports; an exception is a failure: whether it was done is not known."""
    try:
        return work(plan)
    except Exception as error:
        log.exception("the lever of %s at %s broke", plan.action, plan.target)
        return Result(Ending.FAILED, f"the lever broke: {error}")
