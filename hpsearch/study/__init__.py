"""Studies: what is searched, which trial comes next, what happened, all of it in SQL.

Nothing is imported here, so that reading a study file needs neither Optuna nor SQLAlchemy.
"""
