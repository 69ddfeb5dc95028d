"""A study in a real Jupyter kernel: progress below the cell, status and figures as outputs."""

import json

import pytest
from cli_tools import PATIENCE_SECONDS, STUDY, TRAINER, with_changes

CELLS = (
    "import json, hpsearch\nspec, trainer = json.load(open('given.json'))",
    "study = hpsearch.create_study(spec, 'tiny.yaml', base=trainer)\nstudy",
    "study.run()",
    "study.plot_history()",
    "study.frame()",
    "study.best()",
)


@pytest.mark.slow
def test_a_study_shows_itself(tmp_path):
    import nbformat
    from nbclient import NotebookClient

    study = with_changes(STUDY, {"budget/trials": 3})
    (tmp_path / "given.json").write_text(json.dumps([study, TRAINER]))
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(c) for c in CELLS])
    resources = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(notebook, timeout=PATIENCE_SECONDS, resources=resources).execute()
    imported, made, ran, figure, frame, best = (cell.outputs for cell in notebook.cells)
    assert imported == []
    assert "has not been started" in html_of(made[-1])
    progress = [out for out in ran if out.output_type == "display_data"]
    assert len(progress) == 1
    assert "trials: 3 of 3 (3 finished)" in html_of(progress[0])
    assert "tiny: finished" in html_of(ran[-1])
    assert "application/vnd.plotly.v1+json" in figure[-1].data
    assert "host.gamma" in html_of(frame[-1])
    shown = html_of(best[-1])
    assert "host.gamma: 0." in shown
    assert "replay_buffer" not in shown


def html_of(output) -> str:
    return str(output.data["text/html"])
