"""The published files, their sources and published counts."""

from __future__ import annotations

from attrs import frozen

from ke_benchmarks import ATLAS_LICENSE, Variant
from ke_core.plugin import PublishedAudit

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
class MquakeVariant(Variant):
    """One dataset of the family. ``consistent`` drops the cases whose answers change when the edits of all cases are
    applied together.
    """

    family: str = "mquake"
    license: str = "MIT"
    cite: str = CITE
    consistent: bool = False


def cells(*rows: tuple[int, ...]) -> dict[str, int]:
    """Return counts of cases by hops and edits. Rows: number of edits from 1; columns: number of hops from 2; 0 is
    omitted.
    """
    found = {(hops, edits): n for edits, row in enumerate(rows, start=1) for hops, n in enumerate(row, start=2) if n}
    names = {
        f"{hops} hops, {edits} edit{'s' if edits > 1 else ''}": found[hops, edits] for hops, edits in sorted(found)
    }
    return {"cases": sum(found.values()), **names}


CF_3K = "MQuAKE-CF-3k.json"
CF_3K_URL = f"{PRINCETON}datasets/{CF_3K}"
# SHA-256 of the published file, git blob b9d0963c6c1c81b24d8113ffdc3fd0865a423e18.
CF_3K_SIZE = 16_055_945
CF_3K_SHA256 = "ce27a39c39f2983512b9b5578fadea5fbe352e5368f49d64f38d37ce304edc80"

# MQuAKE-Remastered: tables 1, 2, 8 and 9, and its text for the temporal set.
REMASTERED = "MQuAKE-Remastered"
CF_3K_AUDIT = PublishedAudit(
    source=REMASTERED,
    on_unedited={1: (0, 0), 100: (2013, 2706), 1000: (1772, 3075), 2000: (910, 1664), 3000: (0, 0)},
    on_edited={1: (0, 0), 100: (14, 14), 1000: (265, 337), 2000: (619, 854), 3000: (998, 1399)},
    missing=672,
    duplicates=4,
)
CF_AUDIT = PublishedAudit(
    source=REMASTERED,
    on_unedited={
        1: (62, 62), 100: (3307, 4525), 1000: (5275, 8751), 2000: (5110, 8989), 3000: (4578, 8326),
        5000: (3346, 6364), 9218: (0, 0),
    },
    on_edited={
        1: (0, 0), 100: (8, 12), 1000: (192, 270), 2000: (441, 606), 3000: (732, 1027), 5000: (1397, 1986),
        9218: (2873, 4250),
    },
    missing=2830,
    duplicates=47,
)  # fmt: skip
T_AUDIT = PublishedAudit(
    source=REMASTERED,
    on_unedited={1: (29, 29), 100: (1421, 1421), 500: (1327, 1327), 1868: (0, 0)},
    on_edited={1868: (1, 1)},
    missing=233,
    duplicates=4,
)

VARIANTS = (
    MquakeVariant(
        name="mquake-cf-3k",
        summary="3,000 cases of counterfactual edits with two- to four-hop questions, used in the paper's tables",
        file=CF_3K,
        url=CF_3K_URL,
        sha256=CF_3K_SHA256,
        size=CF_3K_SIZE,
        published={
            **cells((513, 356, 224), (487, 334, 246), (0, 310, 262), (0, 0, 268)),
            "edit mentions": 6015,
            "distinct statements": 2786,
            "distinct edited questions": 2785,
        },
        audit=CF_3K_AUDIT,
    ),
    MquakeVariant(
        name="mquake-cf-3k-v2",
        summary="the 3,000 cases of 2024 whose edits do not contradict each other",
        file="MQuAKE-CF-3k-v2.json",
        url=f"{PRINCETON}datasets/MQuAKE-CF-3k-v2.json",
        blobs={"6cf09043": "princeton-nlp/MQuAKE"},
        published={"cases": 3000},
    ),
    MquakeVariant(
        name="mquake-cf",
        summary="all 9,218 cases of counterfactual edits",
        file="MQuAKE-CF.json",
        url=f"{PRINCETON}datasets/MQuAKE-CF.json",
        blobs={"86f8c0d3": "princeton-nlp/MQuAKE"},
        published=cells((2454, 855, 446), (2425, 853, 467), (0, 827, 455), (0, 0, 436)),
        audit=CF_AUDIT,
    ),
    MquakeVariant(
        name="mquake-t",
        summary="1,868 cases with one real-world change each",
        file="MQuAKE-T.json",
        url=f"{PRINCETON}datasets/MQuAKE-T.json",
        blobs={"afd89d0c": "princeton-nlp/MQuAKE", "b0266d90": "DeepEdit and PokeMQA, an older version"},
        published=cells((1421, 445, 2)),
        audit=T_AUDIT,
    ),
    MquakeVariant(
        name="mquake-hard",
        summary="429 four-hop cases with four edits each, selected from mquake-cf by DeepEdit's authors",
        file="MQuAKE-hard.json",
        url=f"{DEEPEDIT}datasets/MQuAKE-hard.json",
        license="MIT (as MQuAKE, the source of the cases)",
        published={**cells((), (), (), (0, 0, 429)), "edit mentions": 1716, "distinct statements": 769},
    ),
    MquakeVariant(
        name="mquake-2002",
        summary="the 2,002 cases of mquake-cf-3k that stay valid when all edits are applied together",
        file=CF_3K,
        url=CF_3K_URL,
        sha256=CF_3K_SHA256,
        size=CF_3K_SIZE,
        consistent=True,
        published=cells((479, 71, 7), (487, 244, 20), (0, 310, 116), (0, 0, 268)),
    ),
)

OWN = MquakeVariant(
    name="mquake",
    summary="your own file in the published format, for example from `ke build mquake`",
    file="MQuAKE.json",
    url="",
    license="license of its facts",
)
ATLAS = MquakeVariant(
    name="mquake-atlas",
    summary="400 cases about countries and cities in one counterfactual world; embedded, needs no download",
    file="",
    url="built by the builder of mquake from the embedded graph",
    license=ATLAS_LICENSE,
    published={**cells((159, 108), (41, 79), (0, 13)), "edit mentions": 546, "distinct statements": 222},
)
