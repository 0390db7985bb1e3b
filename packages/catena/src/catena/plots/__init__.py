"""One call per picture: to a PNG, to one interactive HTML file, or as a value that a notebook shows.

Every caption states the numbers that the picture shows. Needs the extra `plots`: matplotlib (PNG), plotly (HTML).
"""

from catena.plots.fidelity import FidelityPage, FidelityReportLike, fidelity_strip
from catena.plots.graph import chain_graph
from catena.plots.graph_strip import chain_strip
from catena.plots.graph_studies import (
    EpochMeasured,
    Measured,
    graph_degrees,
    graph_density,
    path_lengths,
    training_history,
)
from catena.plots.growth import Cost, cost_growth
from catena.plots.picture import Picture
from catena.plots.ranking import (
    ablation,
    degradation,
    index_over_gamma,
    log_rank_curves,
    recall_by_kind,
    recall_curve,
)
from catena.plots.reliability import reliability_diagram
from catena.plots.segments import relevance_curve
from catena.plots.sizing import size_curves
from catena.plots.space import cohesion, embedding_shift, question_distances
from catena.plots.timeline import Moment, RunLog, run_timeline
from catena.plots.views import Recall, chunking_errors, scope_recall, view_attribution

__all__ = [
    "Picture",
    "log_rank_curves",
    "index_over_gamma",
    "recall_curve",
    "recall_by_kind",
    "ablation",
    "degradation",
    "cohesion",
    "embedding_shift",
    "question_distances",
    "fidelity_strip",
    "reliability_diagram",
    "relevance_curve",
    "cost_growth",
    "run_timeline",
    "size_curves",
    "view_attribution",
    "scope_recall",
    "chunking_errors",
    "chain_graph",
    "chain_strip",
    "path_lengths",
    "graph_density",
    "training_history",
    "graph_degrees",
    "Cost",
    "EpochMeasured",
    "FidelityPage",
    "FidelityReportLike",
    "Measured",
    "Moment",
    "Recall",
    "RunLog",
]
