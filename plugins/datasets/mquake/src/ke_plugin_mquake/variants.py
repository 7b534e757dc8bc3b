"""The published files, where they come from, and what their publishers say they hold."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import field, frozen

PRINCETON = "https://raw.githubusercontent.com/princeton-nlp/MQuAKE/main/"
DEEPEDIT = "https://raw.githubusercontent.com/wangywUST/DeepEdit/main/"
CITE = """@inproceedings{zhong2023mquake,
  title     = {{MQuAKE}: Assessing Knowledge Editing in Language Models via Multi-Hop Questions},
  author    = {Zhong, Zexuan and Wu, Zhengxuan and Manning, Christopher D. and Potts, Christopher and Chen, Danqi},
  booktitle = {Proceedings of the 2023 Conference on Empirical Methods in Natural Language Processing},
  year      = {2023},
  note      = {arXiv:2305.14795}
}"""


@frozen(kw_only=True)
class Variant:
    """One dataset of the family.

    ``sha256`` is of the published file; empty where nobody could check it, and then nothing is fetched.
    ``consistent`` drops the cases whose answers other cases' edits change when all edits are made together.
    """

    name: str
    summary: str
    file: str
    url: str
    sha256: str = ""
    licence: str = "MIT"
    consistent: bool = False
    published: Mapping[str, int] = field(factory=dict)


def _cells(*rows: tuple[int, ...]) -> dict[str, int]:
    """Cases by hops and edits: one row per number of edits from 1 on, columns from 2 hops on; 0 is no cell."""
    found = {(hops, edits): n for edits, row in enumerate(rows, start=1) for hops, n in enumerate(row, start=2) if n}
    names = {
        f"{hops} hops, {edits} edit{'s' if edits > 1 else ''}": found[hops, edits] for hops, edits in sorted(found)
    }
    return {"cases": sum(found.values()), **names}


CF_3K = "MQuAKE-CF-3k.json"
CF_3K_URL = f"{PRINCETON}datasets/{CF_3K}"
# Of the file as published, 16,055,945 bytes, git blob b9d0963c6c1c81b24d8113ffdc3fd0865a423e18.
CF_3K_SHA256 = "ce27a39c39f2983512b9b5578fadea5fbe352e5368f49d64f38d37ce304edc80"

VARIANTS = (
    Variant(
        name="mquake-cf-3k",
        summary="3,000 cases of counterfactual edits and two- to four-hop questions: the set of the paper's tables",
        file=CF_3K,
        url=CF_3K_URL,
        sha256=CF_3K_SHA256,
        published={
            **_cells((513, 356, 224), (487, 334, 246), (0, 310, 262), (0, 0, 268)),
            "edit mentions": 6015,
            "distinct statements": 2786,
            "distinct edited questions": 2785,
        },
    ),
    Variant(
        name="mquake-cf-3k-v2",
        summary="the 3,000 cases of 2024, made so that no case's edits contradict another's",
        file="MQuAKE-CF-3k-v2.json",
        url=f"{PRINCETON}datasets/MQuAKE-CF-3k-v2.json",
        published={"cases": 3000},
    ),
    Variant(
        name="mquake-cf",
        summary="all 9,218 cases of counterfactual edits",
        file="MQuAKE-CF.json",
        url=f"{PRINCETON}datasets/MQuAKE-CF.json",
        published=_cells((2454, 855, 446), (2425, 853, 467), (0, 827, 455), (0, 0, 436)),
    ),
    Variant(
        name="mquake-t",
        summary="1,868 cases of one real change of the world each",
        file="MQuAKE-T.json",
        url=f"{PRINCETON}datasets/MQuAKE-T.json",
        published=_cells((1421, 445, 2)),
    ),
    Variant(
        name="mquake-hard",
        summary="429 four-hop cases of four edits each, chosen from mquake-cf by DeepEdit's authors",
        file="MQuAKE-hard.json",
        url=f"{DEEPEDIT}datasets/MQuAKE-hard.json",
        licence="MIT (of MQuAKE, from which the cases are taken)",
        published={**_cells((), (), (), (0, 0, 429)), "edit mentions": 1716, "distinct statements": 769},
    ),
    Variant(
        name="mquake-2002",
        summary="the 2,002 cases of mquake-cf-3k that stay right when all edits are made together, from its file",
        file=CF_3K,
        url=CF_3K_URL,
        sha256=CF_3K_SHA256,
        consistent=True,
        published=_cells((479, 71, 7), (487, 244, 20), (0, 310, 116), (0, 0, 268)),
    ),
)
