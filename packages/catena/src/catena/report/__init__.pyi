from .fidelity import read_fidelity as read_fidelity
from .options import ReportOptions as ReportOptions
from .reporting import Report as Report
from .reporting import report as report
from .values import Contents as Contents
from .values import Missing as Missing
