"""Operators on the weights of players: how children come from parents.

Each works on all P members of a bank at once: child p is made of row p of each parent, by row p of
a random stream, which advances by what is drawn. Parents are never changed. `options` names them
all; it needs no torch, so that breeding can be planned without.
"""
