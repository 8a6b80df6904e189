"""The variables of the dashboards, and the selectors that hold a series to what they choose.

Prometheus must keep the agent's own labels (`honor_labels: true`), since `job` names the training
job, and attach `node`; `cluster` is for those who have several. Without these labels the variables
stay at All, which shows everything.
"""

from __future__ import annotations

from gpudiag.alerts.shape import RUNBOOKS
from gpudiag.dashboards.panels import DATASOURCE
from gpudiag.dashboards.quirks import builders, models

NODE = 'cluster=~"$cluster", node=~"$node"'
GPU = f'{NODE}, uuid=~"$gpu"'
RANK = f'{NODE}, job=~"$job", rank=~"$rank"'
SERVER = f'{NODE}, server=~"$server", model=~"$model"'
FINDING = f'{NODE}, symptom=~"$symptom", subject=~"$subject"'
PROBE = f'{NODE}, probe=~"$probe"'

_TO_ALL = models.VariableOption(selected=True, text="All", value="$__all")
_BY_TEXT = {
    "cluster": "label_values(gpudiag_build_info, cluster)",
    "node": 'label_values(gpudiag_build_info{cluster=~"$cluster"}, node)',
    "job": f"label_values(gpudiag_train_info{{{NODE}}}, job)",
    "server": f"label_values(gpudiag_serving_up{{{NODE}}}, server)",
    "model": f'label_values(gpudiag_serving_up{{{NODE}, server=~"$server"}}, model)',
    "symptom": f"label_values(gpudiag_finding_active{{{NODE}}}, symptom)",
    "subject": f'label_values(gpudiag_finding_active{{{NODE}, symptom=~"$symptom"}}, subject)',
    "fact": f"label_values(gpudiag_finding_evidence{{{FINDING}}}, fact)",
    "probe": f"label_values(gpudiag_probe_success{{{NODE}}}, probe)",
}
_BY_NUMBER = {
    "rank": f'label_values(gpudiag_train_info{{{NODE}, job=~"$job"}}, rank)',
    "gpu": f"query_result(gpudiag_gpu_info{{{NODE}}})",
}
_REGEX = {
    "gpu": '/gpu="(?<text>[^"]*)".*uuid="(?<value>[^"]*)"/',
    # Some facts are worked out of several metrics and have a name of their own: no series to show.
    "fact": "/^gpudiag_/",
}


def datasource() -> builders.DatasourceVariable:
    """Which Prometheus, or whatever speaks its language."""
    return builders.DatasourceVariable("datasource").label("Data Source").type("prometheus")


def runbooks() -> builders.ConstantVariable:
    """Where the runbooks are served, below which a symptom's page has the symptom's name."""
    return builders.ConstantVariable("runbooks").label("Runbooks").value(RUNBOOKS)


def variable(name: str) -> builders.QueryVariable:
    """One of the variables above, for one, several or all values."""
    number = name in _BY_NUMBER
    query = _BY_NUMBER[name] if number else _BY_TEXT[name]
    sort = models.VariableSort.NUMERICAL_ASC if number else models.VariableSort.ALPHABETICAL_ASC
    built = (
        builders.QueryVariable(name)
        .label(name)
        .datasource(DATASOURCE)
        .query(query)
        .refresh(models.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(sort)
        .multi(True)
        .include_all(True)
        .current(_TO_ALL)
    )
    # Unlike .+ it holds for series without the label too, where there is but one cluster. All
    # facts are those that the finding has: their names stand in for a metric's.
    built = built if name == "fact" else built.all_value(".*")
    return built.regex(_REGEX[name]) if name in _REGEX else built
