"""What people look at and take away: summaries, tables, the live display, the exported best."""
