"""One self-contained HTML page about a library and a question: what was found, how, and why.

The page needs no network: its script, its style and its data are inside it, and its policy forbids any other.
"""

from catena.report.fidelity import read_fidelity
from catena.report.options import ReportOptions
from catena.report.reporting import Report, report
from catena.report.values import Contents, Missing

__all__ = ["Contents", "Missing", "Report", "ReportOptions", "read_fidelity", "report"]
