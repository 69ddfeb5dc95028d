"""The numbers of a configuration: which values are allowed, and whether members may differ."""

from typing import Annotated

from hpsearch.schema import PER_MEMBER, Range

Rate = Annotated[float, Range(low=0.0, high=1.0), PER_MEMBER]
RateBelowOne = Annotated[float, Range(low=0.0, high=1.0, open_high=True), PER_MEMBER]
PositiveRate = Annotated[float, Range(low=0.0, high=1.0, open_low=True), PER_MEMBER]
PositiveNumber = Annotated[float, Range(low=0.0, open_low=True), PER_MEMBER]
NonNegativeNumber = Annotated[float, Range(low=0.0), PER_MEMBER]
PositiveNumberOrNone = Annotated[float | None, Range(low=0.0, open_low=True), PER_MEMBER]
MemberSteps = Annotated[int, Range(low=1), PER_MEMBER]
