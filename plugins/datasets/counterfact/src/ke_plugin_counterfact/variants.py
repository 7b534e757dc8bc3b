"""The published file and its published counts."""

from __future__ import annotations

from ke_benchmarks import Variant

COUNTERFACT = Variant(
    name="counterfact",
    family="counterfact",
    summary="21,919 single counterfactual edits with paraphrases and neighbors",
    file="counterfact.json",
    url="https://rome.baulab.info/data/dsets/counterfact.json",
    license="MIT (of the ROME project, github.com/kmeng01/rome; the file itself states none)",
    cite="""@article{meng2022locating,
  title   = {Locating and Editing Factual Associations in {GPT}},
  author  = {Meng, Kevin and Bau, David and Andonian, Alex and Belinkov, Yonatan},
  journal = {Advances in Neural Information Processing Systems},
  volume  = {35},
  year    = {2022},
  note    = {arXiv:2202.05262}
}""",
    published={"cases": 21_919},
)
