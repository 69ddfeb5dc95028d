"""Versions of the tables of hpsearch, in their own version table beside Optuna's.

A new version is a new file in versions/ whose ``down_revision`` is the one before it. Columns are
written out there instead of taken from database.py: a version stays as it was when the tables
change.
"""

import sqlalchemy as sa
from sqlalchemy.dialects.mysql import MEDIUMTEXT

long_text = sa.Text().with_variant(MEDIUMTEXT(), "mysql", "mariadb")
id_type = sa.BigInteger().with_variant(sa.Integer, "sqlite")
