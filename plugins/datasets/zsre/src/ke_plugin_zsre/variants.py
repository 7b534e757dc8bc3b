"""The published file and its published counts."""

from __future__ import annotations

from ke_benchmarks import Variant

ZSRE = Variant(
    name="zsre",
    family="zsre",
    summary="questions of zsRE as single edits, each with a rephrased and an unrelated question",
    file="zsre_mend_eval.json",
    url="https://rome.baulab.info/data/dsets/zsre_mend_eval.json",
    license="MIT (of ROME and MEND, which publish it; the file states none); loc: Natural Questions, CC BY-SA 3.0",
    cite="""@inproceedings{levy2017zero,
  title     = {Zero-Shot Relation Extraction via Reading Comprehension},
  author    = {Levy, Omer and Seo, Minjoon and Choi, Eunsol and Zettlemoyer, Luke},
  booktitle = {Proceedings of the 21st Conference on Computational Natural Language Learning},
  year      = {2017},
  note      = {arXiv:1706.04115; selected by Mitchell et al. 2022, MEND, arXiv:2110.11309}
}""",
)
