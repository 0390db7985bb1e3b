"""From a laid-out page to Markdown."""

from catena.formatting.figures import figures_of
from catena.formatting.layout_markdown import LayoutOptions, format_layout

__all__ = ["LayoutOptions", "figures_of", "format_layout"]
