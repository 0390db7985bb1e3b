"""Effects: requests to the outside world, the steps that make them, and how steps are run.

This module gathers the names that stages and callers use: `steps` says what can be asked, `services` who
answers, `driver` how a step is run with threads or with asyncio.
"""

from catena.budget import Budget, Price, Tariff, Usage
from catena.driver import arun, run
from catena.journal import Journal
from catena.plan import Plan, plan
from catena.services import Cancel, Clock, Event, Handler, Limiter, Retry, Services
from catena.steps import (
    Certificate,
    Complete,
    CountEdges,
    CountWords,
    Describe,
    DescribeEdges,
    Embed,
    Expand,
    Failed,
    FetchById,
    FetchChunks,
    FetchNodes,
    FetchText,
    FindCovering,
    FindNames,
    Fused,
    NamesFound,
    Rate,
    Recognise,
    Request,
    Search,
    SearchFused,
    Step,
    Validate,
    ask,
    together,
)

__all__ = [
    "Complete",
    "Embed",
    "Rate",
    "Describe",
    "Recognise",
    "Search",
    "SearchFused",
    "Fused",
    "Certificate",
    "FindNames",
    "NamesFound",
    "FetchChunks",
    "FetchText",
    "Expand",
    "FetchNodes",
    "CountWords",
    "FetchById",
    "FindCovering",
    "DescribeEdges",
    "CountEdges",
    "Request",
    "Step",
    "Failed",
    "Validate",
    "ask",
    "together",
    "Services",
    "Handler",
    "Retry",
    "Limiter",
    "Cancel",
    "Event",
    "Clock",
    "Journal",
    "Budget",
    "Price",
    "Tariff",
    "Usage",
    "Plan",
    "plan",
    "run",
    "arun",
]
