"""Who gives way: the worst of all that somebody of their own island can follow.

Only members of one island can take each other's places. The best of an island therefore gives way
to nobody, however bad it is among all, and the next worst does instead.
"""

from collections.abc import Callable, Iterable, Sequence


def giving_way(
    worst_first: Iterable[int], heirs: Callable[[int], Sequence[int]], num: int
) -> dict[int, Sequence[int]]:
    """Return who could take the place of each of at most ``num`` members, the worst first.

    Args:
        worst_first: all members.
        heirs: those who could take a member's place; nobody where it must stay.
        num: members that give way.
    """
    found: dict[int, Sequence[int]] = {}
    for member in worst_first:
        if len(found) == num:
            break
        if candidates := heirs(member):
            found[member] = candidates
    return found
