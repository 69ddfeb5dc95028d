"""Configurations of hironaka.trainer (github.com/honglu2875/hironaka), turned into ours."""

from hpsearch.trainers.from_hironaka.conversion import Converted, convert
from hpsearch.trainers.from_hironaka.old_config import CHANGED, CHOSEN, LEFT_OUT, Remark

__all__ = ["CHANGED", "CHOSEN", "LEFT_OUT", "Converted", "Remark", "convert"]
