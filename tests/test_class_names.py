"""A class's name stands for one thing, wherever in the package it is read."""

import ast
from collections import Counter
from pathlib import Path

import hpsearch

PACKAGE = Path(hpsearch.__file__).parent


def test_no_name_of_a_class_stands_for_something_else_too() -> None:
    classes, names = set(), Counter[str]()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef):
                classes.add(node.name)
                names[node.name] += 1
            elif isinstance(node, ast.Assign):
                names.update(name.id for name in node.targets if isinstance(name, ast.Name))
    assert [name for name in classes if names[name] > 1 and not name.startswith("_")] == []
