"""What parts must keep to, as functions that raise AssertionError: for our own and other packages'.

They need no test runner.
"""
