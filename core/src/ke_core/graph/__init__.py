"""Knowledge graphs: what benchmarks are made from. The embedded one is the atlas. No torch here."""

from ke_core.graph.atlas import load_atlas
from ke_core.graph.base import LITERALS, KnowledgeGraph, Link, Node, literal
from ke_core.graph.build import Asked, Builder, BuilderSpec, BuildTools, QuestionBuilder, Record
from ke_core.graph.graph import Graph, parse
from ke_core.graph.opening import Opened, open_graph
from ke_core.graph.store import StoredGraph

__all__ = [
    "LITERALS",
    "Asked",
    "BuildTools",
    "Builder",
    "BuilderSpec",
    "Graph",
    "KnowledgeGraph",
    "Link",
    "Node",
    "Opened",
    "QuestionBuilder",
    "Record",
    "StoredGraph",
    "literal",
    "load_atlas",
    "open_graph",
    "parse",
]
