"""Draw documents, rankings, segments and graphs (`catena_view.plots`); write the report (`catena_view.report`)."""

__version__ = "0.1.0"
