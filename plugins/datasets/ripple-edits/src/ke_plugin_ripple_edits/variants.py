"""The published files and their published counts."""

from __future__ import annotations

from attrs import frozen

from ke_benchmarks import Variant

PUBLISHED_AT = "https://media.githubusercontent.com/media/edenbiran/RippleEdits/main/data/benchmark/"
FAMILY = "ripple-edits"
CITE = """@article{cohen2024evaluating,
  title   = {Evaluating the Ripple Effects of Knowledge Editing in Language Models},
  author  = {Cohen, Roi and Biran, Eden and Yoran, Ori and Globerson, Amir and Geva, Mor},
  journal = {Transactions of the Association for Computational Linguistics},
  volume  = {12},
  year    = {2024},
  note    = {arXiv:2307.12976}
}"""


@frozen(kw_only=True)
class RippleVariant(Variant):
    """One of the three subsets, with the nominal counts of the paper. The released statistics cover fewer."""

    family: str = FAMILY
    license: str = "MIT"
    cite: str = CITE


RECENT = RippleVariant(
    name="ripple-edits-recent",
    summary="2,000 real facts that were added to Wikidata after July 2022, injected",
    file="recent.json",
    url=f"{PUBLISHED_AT}recent.json",
    # from the git-lfs pointer of the file
    sha256="bc71807ea72280e2587bd1974fc79ae7e23aa24b1d5887bcdced40d448910547",
    size=19_658_316,
    published={"cases": 2000},
)
RANDOM = RippleVariant(
    name="ripple-edits-random",
    summary="1,000 counterfactual edits of entities sampled evenly by their number of facts",
    file="random.json",
    url=f"{PUBLISHED_AT}random.json",
    blobs={"9da7717e": "edenbiran/RippleEdits"},
    published={"cases": 1000},
)
POPULAR = RippleVariant(
    name="ripple-edits-popular",
    summary="1,000 counterfactual edits of entities with popular Wikipedia pages",
    file="popular.json",
    url=f"{PUBLISHED_AT}popular.json",
    blobs={"67a707cc": "edenbiran/RippleEdits"},
    published={"cases": 1000},
)
VARIANTS = (RECENT, RANDOM, POPULAR)
