"""Knowledge graphs: what benchmarks are made from. The embedded one is the atlas. No torch here."""

from ke_core.graph.atlas import load_atlas
from ke_core.graph.base import KnowledgeGraph, Link, Node, literal
from ke_core.graph.build import Asked, Builder, BuilderSpec, BuildTools, Record
from ke_core.graph.graph import Graph, parse

__all__ = [
    "Asked",
    "BuildTools",
    "Builder",
    "BuilderSpec",
    "Graph",
    "KnowledgeGraph",
    "Link",
    "Node",
    "Record",
    "literal",
    "load_atlas",
    "parse",
]
