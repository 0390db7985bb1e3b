from .documents import read_fidelity as read_fidelity
from .reporting import Report as Report
from .reporting import ReportOptions as ReportOptions
from .reporting import report as report
from .values import Missing as Missing
from .values import ReportContents as ReportContents
