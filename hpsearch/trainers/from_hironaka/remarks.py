"""What a conversion has to say: one sentence a key."""

from dataclasses import dataclass
from typing import Final, Literal

Kind = Literal["changed", "left out", "chosen"]
CHANGED: Final = "changed"
LEFT_OUT: Final = "left out"
CHOSEN: Final = "chosen"


@dataclass(frozen=True)
class Remark:
    """What became of one key."""

    kind: Kind
    """it has another meaning, it is gone, or the old file said nothing of it"""
    key: str
    """dotted; ours where it was chosen, else the old one"""
    text: str
