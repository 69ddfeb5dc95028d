"""What people look at: summaries, tables, the live display, the page of a study."""
