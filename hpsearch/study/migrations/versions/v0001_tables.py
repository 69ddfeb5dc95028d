"""Studies, events, leases."""

import sqlalchemy as sa
from alembic import op

from hpsearch.study.migrations import id_type, long_text

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "hpsearch_studies",
        sa.Column("id", id_type, primary_key=True),
        sa.Column("name", sa.String(64), nullable=False, unique=True),
        sa.Column("spec", long_text, nullable=False),
        sa.Column("spec_hash", sa.String(64), nullable=False),
        sa.Column("state", sa.String(32), nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
    )
    op.create_table(
        "hpsearch_events",
        sa.Column("id", id_type, primary_key=True),
        sa.Column("study_id", id_type, sa.ForeignKey("hpsearch_studies.id"), nullable=False),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("kind", sa.String(64), nullable=False),
        sa.Column("trial", sa.Integer),
        sa.Column("attempt", sa.Integer),
        sa.Column("job", sa.String(255)),
        sa.Column("data", long_text, nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_index("hpsearch_events_of_study", "hpsearch_events", ["study_id", "id"])
    op.create_table(
        "hpsearch_leases",
        sa.Column(
            "study_id",
            id_type,
            sa.ForeignKey("hpsearch_studies.id"),
            primary_key=True,
            autoincrement=False,
        ),
        sa.Column("holder", sa.String(255), nullable=False),
        sa.Column("token", id_type, nullable=False),
        sa.Column("expires_at", sa.Double, nullable=False),
    )
