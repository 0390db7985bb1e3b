"""From a laid-out page to Markdown."""

from catena.formatting.layout_markdown import LayoutOptions, format_layout

__all__ = ["LayoutOptions", "format_layout"]
