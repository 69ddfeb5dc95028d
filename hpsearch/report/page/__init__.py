"""A study as one page that stands alone: what was asked, what came out, and why to believe it.

`material.py` gathers what is known, a section yields HTML and charts from it, `page.py` binds them.
Charts are plain dictionaries as plotly.js takes them. Nothing here decides anything.
"""
