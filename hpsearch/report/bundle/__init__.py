"""Bundles: trained players as folders that stand alone.

`choice.py` says which trials, `writing.py` writes what `files.py` names and `placing.py` puts it in
place. `contents.py` reads a folder from anywhere within bounds, `signature.py` signs it and tells
who did, `reading.py` measures its players again, `rebuilding.py` compares its programs. What a
bundle holds: `greedy.py` is a policy as a module, of which `programs.py` and `onnx_program.py` make
files that are held to the player on `positions.py`; `certificate.py` what was measured, `met.py`
and `origin.py` who met it and where it comes from, `readme.py` how it is loaded, `config_text.py`
its configuration for other programs.
"""
