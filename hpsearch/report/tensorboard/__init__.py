"""A study for TensorBoard: its learning curves and parameters, written as event files.

`curves.py` turns a trial's rows into values by tag, `hparams.py` says what the HParams tab shows,
`board.py` writes a folder a trial and keeps it up to date, `server.py` serves the folder.
"""
