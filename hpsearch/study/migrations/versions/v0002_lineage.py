"""The graph of descent: checkpoints and their parents."""

import sqlalchemy as sa
from alembic import op

from hpsearch.study.migrations import id_type, long_text

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.create_table(
        "hpsearch_checkpoints",
        sa.Column("id", id_type, primary_key=True),
        sa.Column("study_id", id_type, sa.ForeignKey("hpsearch_studies.id"), nullable=False),
        sa.Column("trial", sa.Integer, nullable=False),
        sa.Column("step", sa.BigInteger, nullable=False),
        sa.Column("sha256", sa.String(64), nullable=False, index=True),
        sa.Column("operator", sa.String(64), nullable=False),
        sa.Column("adopted", sa.Boolean),
        sa.Column("seed", sa.BigInteger, nullable=False),
        sa.Column("changes", long_text, nullable=False),
        sa.UniqueConstraint("study_id", "trial", "step"),
    )
    op.create_table(
        "hpsearch_parents",
        sa.Column(
            "checkpoint_id",
            id_type,
            sa.ForeignKey("hpsearch_checkpoints.id"),
            primary_key=True,
            autoincrement=False,
        ),
        sa.Column("position", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("sha256", sa.String(64), nullable=False, index=True),
    )
