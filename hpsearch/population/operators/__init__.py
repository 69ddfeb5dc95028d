"""Operators on the weights of players: how children come from parents.

Each is a function of networks, numbers and a random stream, and works on all P members of a bank
at once: child p is made of row p of each parent. Parents are never changed; a stream advances in
place by what is drawn. A child depends on its own row of the stream alone, so its seed and its
parents are enough to make it again.

`options.PARENTS` names them all; it needs no torch, so that breeding can be planned without.
"""
