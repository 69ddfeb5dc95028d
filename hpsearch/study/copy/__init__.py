"""A compact copy of a study's trials for those who look at it: one SQLite file of Optuna's schema.

`rows.py` moves many trials at once, `file.py` says how far the copy is, `writer.py` brings it up
to date, `reader.py` tells what is new in it, `keeper.py` lets a driver write it now and then.
"""
