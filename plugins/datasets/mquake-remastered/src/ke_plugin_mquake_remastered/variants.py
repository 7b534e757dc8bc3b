"""The published files, their sources and published counts."""

from __future__ import annotations

from attrs import frozen

from ke_plugin_mquake.variants import MquakeVariant, cells

HUB = "https://huggingface.co/datasets/henryzhongsc/MQuAKE-Remastered"
REPOSITORY = "henryzhongsc/MQuAKE-Remastered on GitHub"
CITE = """@misc{zhong2024mquakeremastered,
  title  = {{MQuAKE-Remastered}: Multi-Hop Knowledge Editing Can Only Be Advanced With Reliable Evaluations},
  author = {Zhong, Shaochen and Lu, Yifan and Shao, Lize and Bhushanam, Bhargav and Du, Xiaocong and Feng, Louis and
            Wan, Yixin and Wang, Yiwei and Zha, Daochen and Shi, Yucheng and Liu, Ninghao and Zhou, Kaixiong and
            Xu, Shuai and Chaudhary, Vipin and Hu, Xia},
  year   = {2024}
}"""
EDITED, UNEDITED = "edited", "unedited"
TRAIN, TEST, TEST_ONLY, TEST_UNEDITED = "train_edited", "test_edited", "test_edited_unique", "test_unedited"


@frozen(kw_only=True)
class RemasteredVariant(MquakeVariant):
    """One split of the published dataset. ``masked``: whether the paper masks it. ``sizes``: the k of its split.

    ``labels``: allowed labels of a case in the split.
    """

    family: str = "mquake-remastered"
    license: str = "CC BY 4.0 (github.com/henryzhongsc/MQuAKE-Remastered); derived from MQuAKE, MIT"
    cite: str = CITE
    url: str = HUB
    masked: bool = True
    sizes: tuple[int, ...]
    labels: frozenset[str] = frozenset({EDITED, UNEDITED})


VARIANTS = (
    RemasteredVariant(
        name="mquake-remastered-cf3k",
        summary="MQuAKE-CF-3k corrected: 3,000 counterfactual cases, masked",
        file="CF3k.json",
        blobs={"6413d4b4": REPOSITORY},
        sizes=(1, 100, 1000, 3000),
        published=cells((513, 356, 224), (487, 334, 246), (0, 310, 262), (0, 0, 268)),
    ),
    RemasteredVariant(
        name="mquake-remastered-cf9k",
        summary="MQuAKE-CF corrected: 9,171 counterfactual cases, masked",
        file="CF9k.json",
        blobs={"f72e6094": REPOSITORY},
        sizes=(1, 1000, 3000, 6000, 9171),
        published=cells((2446, 850, 441), (2415, 852, 463), (0, 823, 451), (0, 0, 430)),
    ),
    RemasteredVariant(
        name="mquake-remastered-t",
        summary="MQuAKE-T corrected: 1,864 cases with one real-world change each, masked",
        file="T.json",
        blobs={"032bfcaa": REPOSITORY},
        sizes=(1, 100, 500, 1864),
        published=cells((1421, 441, 2)),
    ),
    RemasteredVariant(
        name="mquake-remastered-cf6334",
        summary="6,334 counterfactual cases whose edits do not affect each other, split for training and test; "
        "not masked",
        file="CF6334.json",
        blobs={"d1dad73f": REPOSITORY},
        sizes=(100, 1000, 3000, 6334),
        masked=False,
        labels=frozenset({TRAIN, TEST, TEST_ONLY, TEST_UNEDITED}),
    ),
)
