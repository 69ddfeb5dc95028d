"""Snapshots: what the events add up to, so that readers need not read all of them."""

import sqlalchemy as sa
from alembic import op

from hpsearch.study.migrations import id_type, long_text

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.create_table(
        "hpsearch_snapshots",
        sa.Column(
            "study_id",
            id_type,
            sa.ForeignKey("hpsearch_studies.id"),
            primary_key=True,
            autoincrement=False,
        ),
        sa.Column("kind", sa.String(16), primary_key=True),
        sa.Column("name", sa.String(255), primary_key=True),
        sa.Column("event", id_type, nullable=False),
        sa.Column("data", long_text, nullable=False),
    )
