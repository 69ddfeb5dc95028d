"""A study as one page that stands alone: what was asked, what came out, and why to believe it.

`material.py` gathers what is known, each section is a file from that to HTML, `page.py` binds them.
Figures are plain dictionaries as plotly.js takes them. Nothing here decides anything.
"""
