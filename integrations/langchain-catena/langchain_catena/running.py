"""Core steps inside LangChain's callbacks: what a step asks of models and retrievers is traced as a child."""

from __future__ import annotations

import asyncio
from typing import TypeVar, cast

from langchain_core.callbacks import BaseCallbackManager, Callbacks
from langchain_core.runnables import RunnableConfig, ensure_config
from langchain_core.runnables.config import patch_config, set_config_context

from catena.effects import Services, Step, arun, run

T = TypeVar("T")


def run_within(callbacks: Callbacks, step: Step[T], services: Services) -> T:
    """Drive a step; runnables that it calls, in threads too, find callbacks, tags and options through the context."""
    if callbacks is None:
        return run(step, services)
    with set_config_context(_under(callbacks)) as context:
        return context.run(run, step, services)


async def arun_within(callbacks: Callbacks, step: Step[T], services: Services) -> T:
    """As `run_within`, without blocking the event loop."""
    if callbacks is None:
        return await arun(step, services)
    with set_config_context(_under(callbacks)) as context:
        return await asyncio.get_running_loop().create_task(arun(step, services), context=context)


def for_children(config: RunnableConfig | None) -> RunnableConfig:
    """Return what of a call's options its children are called with: all but its own name and id."""
    own = ("run_name", "run_id")
    return cast("RunnableConfig", {key: value for key, value in ensure_config(config).items() if key not in own})


def _under(callbacks: Callbacks) -> RunnableConfig:
    return patch_config(None, callbacks=cast("BaseCallbackManager", callbacks))  # a list of handlers does as well
