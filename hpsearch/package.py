"""The package itself: its version, and where its code lies.

They stand here because `hpsearch`, which gives users the Python API, leads to everything else.
"""

from pathlib import Path
from typing import Final

__version__ = "0.2.0"
FOLDER: Final = Path(__file__).parent
