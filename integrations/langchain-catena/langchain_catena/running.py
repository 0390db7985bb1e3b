"""Core steps inside LangChain's callbacks: what a step asks of models and retrievers is traced as a child."""

from __future__ import annotations

import asyncio
from typing import TypeVar

from langchain_core.callbacks import Callbacks
from langchain_core.runnables.config import set_config_context

from catena.effects import Services, Step, arun, run

T = TypeVar("T")


def run_within(callbacks: Callbacks, step: Step[T], services: Services) -> T:
    """Drive a step; runnables that it calls, in threads too, find the callbacks through the context."""
    if callbacks is None:
        return run(step, services)
    with set_config_context({"callbacks": callbacks}) as context:
        return context.run(run, step, services)


async def arun_within(callbacks: Callbacks, step: Step[T], services: Services) -> T:
    """As `run_within`, without blocking the event loop."""
    if callbacks is None:
        return await arun(step, services)
    with set_config_context({"callbacks": callbacks}) as context:
        return await asyncio.get_running_loop().create_task(arun(step, services), context=context)
