"""Knowledge graphs: what benchmarks are made from. The embedded one is the atlas. No torch here."""

from ke_core.graph.atlas import load_atlas
from ke_core.graph.graph import Graph, Link, Node, parse

__all__ = ["Graph", "Link", "Node", "load_atlas", "parse"]
