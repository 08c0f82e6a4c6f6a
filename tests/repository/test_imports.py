"""The import graph of all packages, with imports inside functions and under TYPE_CHECKING."""

import grimp
import networkx
import pytest
from paths import PACKAGES


def find_circles(graph: grimp.ImportGraph) -> list[list[str]]:
    """Groups of modules that import each other, directly or through others."""
    imports = networkx.DiGraph(
        (module, target) for module in graph.modules for target in graph.find_modules_directly_imported_by(module)
    )
    return [sorted(group) for group in networkx.strongly_connected_components(imports) if len(group) > 1]


def test_no_modules_import_each_other():
    graph = grimp.build_graph(*PACKAGES, exclude_type_checking_imports=False)
    assert len(graph.modules) > 200
    assert find_circles(graph) == []


@pytest.mark.parametrize("imports", [[("a", "b"), ("b", "a")], [("a", "b"), ("b", "c"), ("c", "a")]])
def test_a_circle_is_found(imports):
    graph = grimp.ImportGraph()
    for importer, imported in imports:
        graph.add_import(importer=importer, imported=imported)
    (circle,) = find_circles(graph)
    assert set(circle) == {name for pair in imports for name in pair}
