"""What the fields of a dataclass mean: the text under each of them in the source.

So a file that explains its keys cannot say anything else than the code.
"""

import ast
import inspect
import textwrap
from functools import cache
from typing import Any


@cache
def field_notes(cls: Any) -> dict[str, str]:
    """Return one line for each field of a dataclass under which there is a text."""
    notes: dict[str, str] = {}
    for base in reversed(cls.__mro__[:-1]):
        if "__annotations__" in vars(base):
            notes |= _own_notes(base)
    return notes


def class_note(cls: Any) -> str:
    """Return the first sentence of a class's docstring, without its full stop."""
    first = inspect.cleandoc(cls.__doc__ or "").partition("\n\n")[0]
    return " ".join(first.replace("``", "").split()).removesuffix(".")


def _own_notes(cls: Any) -> dict[str, str]:
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(cls))).body
    assert isinstance(tree, ast.ClassDef)
    notes: dict[str, str] = {}
    field = None
    for node in tree.body:
        match node:
            case ast.AnnAssign(target=ast.Name(id=name)):
                field = name
                continue
            case ast.Expr(value=ast.Constant(value=str(text))) if field is not None:
                notes[field] = " ".join(text.split())
        field = None
    return notes
