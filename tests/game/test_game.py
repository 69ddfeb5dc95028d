import subprocess
import sys
from pathlib import Path

from hpsearch import game
from hpsearch.game.kernels import BACKENDS


def test_exported_names():
    assert game.__all__ == sorted(game.__all__)
    assert all(hasattr(game, name) for name in game.__all__)


def test_backends_export_the_same_names():
    assert len({tuple(backend.__all__) for backend in BACKENDS.values()}) == 1


def test_the_example_of_the_readme():
    text = (Path(game.__file__).parent / "README.md").read_text()
    names: dict[str, object] = {}
    exec(text.split("```python\n")[1].split("```")[0], names)
    assert isinstance(names["game"], game.FusedGame)
    assert (names["game"].starts > 0).any()


def test_importing_compiles_nothing():
    """A cold import must stay cheap: every kernel is compiled when it is first called."""
    program = (
        "import sys\n"
        "from numba.core import event\n"
        "with event.install_recorder('numba:compile') as recorder:\n"
        "    import hpsearch.game.fused_game\n"
        "assert not recorder.buffer, recorder.buffer\n"
        "assert 'triton' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)
