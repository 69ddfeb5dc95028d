"""What parts must keep to, as functions that raise AssertionError: for our own and other packages'.

They need no test runner. Each takes a part as a study or a trainer file names it.
"""
