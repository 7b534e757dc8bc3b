"""Option for the folder of published data files."""

from __future__ import annotations

import argparse
import os
from pathlib import Path


def add_data_dir(parser: argparse.ArgumentParser) -> None:
    """Add the option ``--data-dir DIR``, with KE_DATA_DIR as default."""
    named = os.environ.get("KE_DATA_DIR") or None
    parser.add_argument(
        "--data-dir", type=Path, metavar="DIR", default=named, required=named is None, help="default: KE_DATA_DIR"
    )
