"""The graph of descent: checkpoints and their parents."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.mysql import MEDIUMTEXT

revision = "0002"
down_revision = "0001"

long_text = sa.Text().with_variant(MEDIUMTEXT(), "mysql", "mariadb")
id_type = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """Create the tables."""
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


def downgrade() -> None:
    """Drop the tables."""
    op.drop_table("hpsearch_parents")
    op.drop_table("hpsearch_checkpoints")
