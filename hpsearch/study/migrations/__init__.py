"""Versions of the tables of hpsearch, in their own version table beside Optuna's.

A new version is a new file in versions/ whose ``down_revision`` is the one before it. It writes out
its columns instead of taking them from database.py: it stays as it was when the tables change.
"""

import sqlalchemy as sa
from sqlalchemy.dialects.mysql import MEDIUMTEXT

long_text = sa.Text().with_variant(MEDIUMTEXT(), "mysql", "mariadb")
id_type = sa.BigInteger().with_variant(sa.Integer, "sqlite")
