"""The password of a database reaches no file, no output and no exported player."""

from pathlib import Path
from urllib.parse import quote

import pytest
from cli_tools import hpsearch, write_study, write_trainer
from servers import Server

VARIABLE = "HPSEARCH_TEST_STORAGE"
USER, PASSWORD = "reader_of_nothing", "dont#tell/Me-93"
SHORT = {"steps": 20, "evaluation/interval": 20, "evaluation/final_num_games": 50}
TWO_TRIALS = {
    "storage": f"env:{VARIABLE}",
    "budget/trials": 2,
    "executor/jobs": 1,
    "executor/members_per_job": 2,
}


def holding_the_password(folder: Path) -> list[Path]:
    """Return the files in a folder in which the password stands, as it is or as in a URL."""
    words = [PASSWORD.encode(), quote(PASSWORD, safe="").encode()]
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert len(files) > 10
    return [path for path in files if any(word in path.read_bytes() for word in words)]


@pytest.mark.slow
def test_no_password_in_files_output_and_exports(postgresql: Server, tmp_path: Path) -> None:
    url = postgresql.new_database("passwords")
    postgresql.execute(f"CREATE ROLE {USER} LOGIN SUPERUSER PASSWORD '{PASSWORD}'")
    place = url.rpartition("@")[2]
    ours = f"postgresql+psycopg://{USER}:{quote(PASSWORD, safe='')}@{place}"
    write_trainer(tmp_path, SHORT)
    write_study(tmp_path, TWO_TRIALS)
    env = {VARIABLE: ours}
    done = [hpsearch(tmp_path, "run", "study.yaml", "--no-export", env=env)]
    done += [hpsearch(tmp_path, command, "tiny", env=env) for command in ("status", "trials")]
    done.append(hpsearch(tmp_path, "export", "tiny", "-o", "best", env=env))
    assert (tmp_path / "best").is_dir()

    postgresql.execute(f"ALTER ROLE {USER} PASSWORD 'another'")
    done.append(hpsearch(tmp_path, "run", "study.yaml", env=env, code=5))
    assert "does not permit this user" in done[-1].stderr
    assert f"{USER}:***@" in done[-1].stderr
    postgresql.stop()
    try:
        done.append(hpsearch(tmp_path, "run", "study.yaml", env=env, code=5))
    finally:
        postgresql.start()
    assert "cannot be used now" in done[-1].stderr

    for ended in done:
        for text in (ended.stdout, ended.stderr):
            assert PASSWORD not in text
            assert quote(PASSWORD, safe="") not in text
    assert holding_the_password(tmp_path) == []
    stored = postgresql.execute("SELECT spec FROM hpsearch_studies", url)
    assert PASSWORD not in str(stored)
    assert quote(PASSWORD, safe="") not in str(stored)
