"""Where benchmarks find the published data files."""

from __future__ import annotations

import argparse
import os
from pathlib import Path


def add_data_dir(parser: argparse.ArgumentParser) -> None:
    """The option ``--data-dir DIR``; KE_DATA_DIR takes its place."""
    named = os.environ.get("KE_DATA_DIR") or None
    parser.add_argument(
        "--data-dir", type=Path, metavar="DIR", default=named, required=named is None, help="default: KE_DATA_DIR"
    )
