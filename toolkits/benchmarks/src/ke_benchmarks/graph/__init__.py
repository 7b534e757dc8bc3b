"""Knowledge graphs, from which benchmarks are built. The embedded one is the atlas. Does not import torch.

The code that opens graphs is imported on use: every ``ke`` command imports this package, because plugins declare their
builders here, and few need TOML or HTTP.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ke_benchmarks.graph.base import LITERALS, KnowledgeGraph, Link, Node, contains_name, literal
from ke_benchmarks.graph.build import (
    Builder,
    BuilderSpec,
    BuildTools,
    EditBuilder,
    GraphEdit,
    QuestionBuilder,
    RecallProbe,
    Record,
)
from ke_benchmarks.graph.graph import Graph, load_atlas, parse
from ke_benchmarks.graph.miniatures import (
    PROFILE,
    REPHRASED,
    other_object,
    profile,
    profile_text,
    profiled_countries,
    rephrased,
    sampled_subjects,
    unrelated_questions,
)

if TYPE_CHECKING:
    from ke_benchmarks.graph.opening import OpenedGraph, open_graph


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from ke_benchmarks.graph import opening  # noqa: PLC0415  see above

    return getattr(opening, name)


__all__ = [
    "LITERALS",
    "PROFILE",
    "REPHRASED",
    "BuildTools",
    "Builder",
    "BuilderSpec",
    "EditBuilder",
    "Graph",
    "GraphEdit",
    "KnowledgeGraph",
    "Link",
    "Node",
    "OpenedGraph",
    "QuestionBuilder",
    "RecallProbe",
    "Record",
    "contains_name",
    "literal",
    "load_atlas",
    "open_graph",
    "other_object",
    "parse",
    "profile",
    "profile_text",
    "profiled_countries",
    "rephrased",
    "sampled_subjects",
    "unrelated_questions",
]
