"""No module imports itself by way of others; lazy and TYPE_CHECKING imports count."""

from graphlib import TopologicalSorter

import grimp


def test_no_import_circle():
    graph = grimp.build_graph("hpsearch")
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    TopologicalSorter(imports).prepare()  # a CycleError names the circle
