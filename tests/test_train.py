"""hpsearch train and hpsearch checkpoint, as a user meets them."""

import errno
import fcntl
import json
import os
import pty
import random
import re
import signal
import subprocess
import sys
import termios
import time

import pytest
import torch
from cli_tools import PATIENCE_SECONDS, hpsearch, refused
from tried import tried

from hpsearch import yaml_file
from hpsearch.cli import main
from hpsearch.cluster.records import JobHeartbeat, MemberHeartbeat
from hpsearch.cluster.study_dir import StudyDir, TrialDir
from hpsearch.trainers import checkpoint

HOST = "rho/host/choose_first"
WILD = [
    "host.optim.args.lr=3e38",
    "host.optim.lr_schedule.initial=3e38",
    "host.optim.args.eps=1e-30",
]
LONG = {
    "steps": 300,
    "host.optim.lr_schedule.steps": 250,
    "evaluation.interval": 50,
    "checkpoint.interval": 25,
}
ENDLESS = {"steps": 10**8, "evaluation.interval": 10**8, "checkpoint.interval": 10**8}


@pytest.fixture(autouse=True)
def same_threads_afterwards():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.fixture
def write(tmp_path, plain_config):
    """Return a function (changes, algorithm) -> folder with mine.yaml."""

    def write(changes=None, algorithm="dqn"):
        (tmp_path / "mine.yaml").write_text(yaml_file.dump(plain_config(changes, algorithm)))
        return tmp_path

    return write


@pytest.fixture
def train(tmp_path, monkeypatch, capsys):
    """Return a function (arguments) -> exit code, stdout, stderr of hpsearch train."""
    monkeypatch.chdir(tmp_path)

    def train(*arguments, config="mine.yaml"):
        try:
            code = main(["train", config, "--threads", "1", *arguments])
        except SystemExit as error:
            code = error.code
        captured = capsys.readouterr()
        assert "Traceback" not in captured.out + captured.err
        assert "fault of hpsearch" not in captured.err
        return code, captured.out, captured.err

    return train


def config_of(folder, name="mine"):
    return yaml_file.load(TrialDir(folder / "runs" / name).config)


def tensors(folder, name="mine"):
    """Return the tensors of the newest checkpoint of a run."""
    checkpoints = TrialDir(folder / "runs" / name).checkpoints
    return checkpoint.load(
        checkpoint.path_of(checkpoints, next(checkpoint.valid_steps(checkpoints)))
    ).tensors


def assert_same_end(folder, left, other):
    first, second = tensors(folder, left), tensors(folder, other)
    assert first.keys() == second.keys()
    for name in first:
        assert first[name].dtype == second[name].dtype
        assert torch.equal(first[name], second[name]), name
    curves = [
        [(row["step"], row["metrics"]) for row in TrialDir(folder / "runs" / n).read_metrics()]
        for n in (left, other)
    ]
    assert curves[0] == curves[1]


def files_of(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


class Training:
    """`hpsearch train mine.yaml` in the background."""

    def __init__(self, folder, *arguments):
        self.log = (folder / f"{time.monotonic_ns()}.log").open("w+")
        command = ["-m", "hpsearch.cli", "train", "mine.yaml", "--threads", "1", *arguments]
        self.process = subprocess.Popen(
            [sys.executable, *command], cwd=folder, stdout=self.log, stderr=subprocess.STDOUT
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.log.close()

    def wait_until(self, condition):
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not condition():
            assert self.process.poll() is None, "it ended before its time"
            assert time.monotonic() < deadline, "waited too long"
            time.sleep(0.005)

    def end(self, number):
        """Send a signal, unless it has ended; return exit code and output."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        code = self.process.wait(PATIENCE_SECONDS)
        self.log.seek(0)
        output = self.log.read()
        assert "Traceback" not in output
        return code, output


# To the end.


@pytest.mark.parametrize("algorithm", ["dqn", "ppo"])
def test_training_to_the_end_and_again(write, train, algorithm):
    folder = write(algorithm=algorithm)
    code, out, err = train()
    assert (code, err) == (0, "")
    lines = out.splitlines()
    evaluations = [re.search(r"step (\d+) of 12 .*" + HOST, line) for line in lines]
    assert [int(match[1]) for match in evaluations if match] == [4, 8, 12]
    assert all(line.isprintable() for line in lines)
    assert lines[-1] == f"checkpoints and curves are in {folder}/runs/mine"
    result = TrialDir(folder / "runs/mine").attempt(1).read_result()
    assert f"{result.metrics[HOST]['value']:.4f}" in lines[-3]
    assert result.metrics[HOST]["games"] == 30
    table, before = lines[-4:], tensors(folder)
    code, out, err = train()
    assert (code, err) == (0, "")
    assert out.splitlines()[-4:] == table
    assert out.splitlines()[0] == "mine goes on from step 12"
    assert len(out.splitlines()) == 5
    assert all(torch.equal(before[name], tensor) for name, tensor in tensors(folder).items())


@pytest.mark.slow
def test_a_pipe_gets_lines_without_control_characters(write):
    done = hpsearch(write(), "train", "mine.yaml", "--threads", "1")
    assert all(line.isprintable() for line in done.stdout.splitlines())
    assert len([line for line in done.stdout.splitlines() if HOST in line]) == 4


@pytest.mark.slow
def test_a_terminal_shows_the_panel(write):
    master, slave = pty.openpty()
    command = [sys.executable, "-m", "hpsearch.cli", "train", "mine.yaml", "--threads", "1"]
    process = subprocess.Popen(
        command, cwd=write(), stdout=slave, stderr=slave, env=os.environ | {"TERM": "xterm"}
    )
    os.close(slave)
    seen = b""
    while True:
        try:
            more = os.read(master, 65536)
        except OSError:  # how Linux says that the other end is closed
            break
        if not more:
            break
        seen += more
    os.close(master)
    assert process.wait(PATIENCE_SECONDS) == 0
    shown = seen.decode()
    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown)
    assert "\x1b[?25l" in shown  # the cursor hides
    assert shown.rindex("\x1b[?25h") > shown.rindex("\x1b[?25l")  # and comes back
    for words in ("step:   12 of 12", "speed:", "left", HOST, "checkpoints and curves are in"):
        assert words in plain
    assert "Traceback" not in plain


# Interrupted, killed.


@pytest.mark.parametrize("algorithm", tried(["dqn", "ppo"], slow=["dqn"]))
def test_ctrl_c_saves_and_the_same_command_ends_bitwise_the_same(write, train, algorithm):
    folder = write(LONG, algorithm)
    assert train("--name", "whole")[0] == 0
    trial = TrialDir(folder / "runs/mine")
    with Training(folder) as training:
        training.wait_until(lambda: trial.metrics.exists())
        code, output = training.end(signal.SIGINT)
    assert code == 130
    step = next(checkpoint.valid_steps(trial.checkpoints))
    assert f"interrupted at step {step} of 300 and saved; the same command goes on\n" in output
    path = checkpoint.path_of(trial.checkpoints, step)
    assert checkpoint.load(path).kind in ("preempted", "periodic")
    code, out, _ = train()
    assert code == 0
    assert out.startswith(f"mine goes on from step {step}\n")
    assert_same_end(folder, "mine", "whole")


@pytest.mark.slow
def test_it_saves_where_its_terminal_is_closed(write):
    """Which sends SIGHUP, and what is shown after that cannot be written."""
    folder, (master, slave) = write(ENDLESS), pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "hpsearch.cli", "train", "mine.yaml", "--threads", "1"],
        cwd=folder,
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env=os.environ | {"TERM": "xterm"},
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(slave, termios.TIOCSCTTY, 0),
    )
    os.close(slave)
    shown = b""
    while b"steps/s" not in shown:
        shown += os.read(master, 65536)
    os.close(master)
    assert process.wait(PATIENCE_SECONDS) == 130
    (step,) = checkpoint.valid_steps(TrialDir(folder / "runs/mine").checkpoints)
    assert step > 0


@pytest.mark.parametrize("algorithm", tried(["dqn", "ppo"], slow=["ppo"]))
def test_killed_at_random_moments_it_ends_bitwise_the_same(write, train, algorithm):
    steps = {"dqn": 800, "ppo": 300}[algorithm]  # seconds of either
    folder = write({**LONG, "steps": steps, "checkpoint.interval": 20}, algorithm)
    assert train("--name", "whole")[0] == 0
    moments, kills, code = random.Random(1), 0, None
    while code != 0 and kills < 30:
        with Training(folder) as training:
            trial = TrialDir(folder / "runs/mine")
            attempts = trial.newest_attempt()
            training.wait_until(lambda a=attempts, t=trial: t.newest_attempt() > a)
            wait = moments.uniform(0.0, 1.0) if kills < 3 else PATIENCE_SECONDS
            try:
                code = training.process.wait(wait)
            except subprocess.TimeoutExpired:
                code, _ = training.end(signal.SIGKILL)
                kills += 1
    assert code == 0
    assert kills >= 2
    assert_same_end(folder, "mine", "whole")


@pytest.mark.slow
def test_one_process_trains_and_saves_on_request(write, train):
    folder = write(ENDLESS)
    trial = TrialDir(folder / "runs/mine")
    with Training(folder) as training:
        training.wait_until(lambda: trial.heartbeat.try_read() is not None)
        before = trial.config.read_bytes()
        for arguments in ([], ["--resume", "never"], ["seed=9"]):
            code, _, err = train(*arguments)
            assert code == 4
            assert err.startswith(f"hpsearch: another process trains {folder}/runs/mine; stop it")
        assert trial.config.read_bytes() == before
        assert main(["checkpoint", "runs/mine"]) == 0
        training.wait_until(lambda: list(checkpoint.valid_steps(trial.checkpoints)))
        (step,) = checkpoint.valid_steps(trial.checkpoints)
        path = checkpoint.path_of(trial.checkpoints, step)
        assert checkpoint.load(path).kind == "requested"
        code, output = training.end(signal.SIGTERM)
    assert code == 130
    newest = next(checkpoint.valid_steps(trial.checkpoints))
    assert f"interrupted at step {newest}" in output
    # A checkpoint that was just asked for at the same step is kept as it is.
    kind = checkpoint.load(checkpoint.path_of(trial.checkpoints, newest)).kind
    assert kind == ("requested" if newest == step else "preempted")


HANG = """
import sys, time
from hpsearch.trainers.trainer import Trainer

original, calls = Trainer.train, []

def hang(self, steps):
    calls.append(1)
    if len(calls) == 3:
        with self.sections("update"):
            time.sleep(1000)
    original(self, steps)

Trainer.train = hang
from hpsearch.cli import main
sys.exit(main(["train", "mine.yaml", "--threads", "1"]))
"""


@pytest.mark.slow
def test_a_hang_ends_with_a_sentence_and_the_same_command_goes_on(write, train):
    folder = write({"monitor.hang_timeout": 5.0, "checkpoint.interval": 1})
    (folder / "hang.py").write_text(HANG)
    done = subprocess.run(
        [sys.executable, "hang.py"], cwd=folder, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 8
    assert "Traceback" not in done.stdout + done.stderr
    assert "no sign of progress for 5 seconds, in update; see the stacks" in done.stderr
    result = TrialDir(folder / "runs/mine").attempt(1).read_result()
    assert (result.kind, "in update" in result.message) == ("hung", True)
    code, out, _ = train()
    assert code == 0
    assert not out.startswith("mine begins at step 0")


# What is changed on the command line.


def test_keys_are_changed_before_and_after_the_options(write, train):
    """Before, those after an option were refused as unrecognized arguments."""
    folder = write()
    before, after = ["host.gamma=0.8", "steps=4"], ["host.net_arch=[6, 5]", "seed=77"]
    options = ["--threads", "1", after[0], "--name", "a", after[1]]
    code = main(["train", "mine.yaml", *before, *options])
    assert code == 0
    config = config_of(folder, "a")
    assert (config["host"]["gamma"], config["steps"]) == (0.8, 4)
    assert (config["host"]["net_arch"], config["seed"]) == ([6, 5], 77)
    code, _, _ = train("steps=4", "checkpoint.best=null", "host.optim.args.lr=1e-3", "--name", "b")
    assert code == 0
    config = config_of(folder, "b")
    assert (config["checkpoint"]["best"], config["host"]["optim"]["args"]["lr"]) == (None, 1e-3)


def test_a_changed_key_leaves_what_the_file_says_by_the_same_anchor(write, train):
    """Before, it changed both roles."""
    folder = write({"agent": "learn", "steps": 2})
    text = yaml_file.dump(yaml_file.load(folder / "mine.yaml") | {"host": None, "agent": None})
    role = yaml_file.load(folder / "mine.yaml")["host"]
    lines = [line for line in text.splitlines() if not line.startswith(("host:", "agent:"))]
    shared = json.dumps(role)
    (folder / "mine.yaml").write_text(
        "\n".join([*lines, f"host: &role {shared}", "agent: *role"]) + "\n"
    )
    assert train("host.gamma=0.5", "agent.optim.args.lr=0.25")[0] == 0
    config = config_of(folder)
    assert (config["host"]["gamma"], config["agent"]["gamma"]) == (0.5, 0.9)
    rates = [config[name]["optim"]["args"]["lr"] for name in ("host", "agent")]
    assert rates == [1e-3, 0.25]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--threads", "99999"], 2, ["--threads 99999 takes 99999 cores", "may use is"]),
        (["host.gama=0.9"], 2, ["host.gama: unknown key 'gama' (did you mean 'gamma'?)"]),
        (["gamma=0.9"], 2, ["gamma: unknown key 'gamma'"]),
        (["host.gamma.x=0.9"], 2, ["no keys below 'host.gamma'"]),
        (["=3"], 2, ["unknown key ''"]),
        (["host.gamma"], 2, ["is written KEY=VALUE", "'host.gamma'"]),
        (["host.gamma=high"], 3, ["mine.yaml: host.gamma", "'high'"]),
        (["host.gamma=2.0"], 3, ["mine.yaml: host.gamma", "2.0"]),
        (["steps="], 3, ["mine.yaml: steps", "null"]),
        (["host.net_arch=[8"], 2, ["the value of host.net_arch", "is not YAML"]),
        (["host.net_arch=!!python/object/apply:os.getcwd []"], 2, ["is not YAML"]),
        (["checkpoint.best=rho/host/unknown"], 3, ["unknown metric 'rho/host/unknown'", HOST]),
        (["checkpoint.best=rho/agent/random"], 3, ["unknown metric 'rho/agent/random'"]),
        (["checkpoint.keep_last=1"], 3, ["checkpoint.keep_last"]),
        (["checkpoint.seconds=0"], 3, ["checkpoint.seconds"]),
        (["checkpoint.resume=perhaps"], 3, ["checkpoint.resume", "'perhaps'", "auto"]),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_a_wrong_change_is_one_sentence(write, train, arguments, code, words):
    folder = write()
    status, out, err = train(*arguments)
    assert (status, out) == (code, "")
    assert err.startswith("hpsearch: ")
    assert err.count("\n") == 1
    for word in words:
        assert word in err
    assert not (folder / "runs").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--threads", "0"], "must be a whole number of at least 1, got '0'"),
        (["--threads", "-1"], "must be a whole number of at least 1, got '-1'"),
        (["--threads", "two"], "got 'two'"),
        (["--resume", "maybe"], "invalid choice: 'maybe'"),
        (["seed=1", "--nme", "x"], "unrecognized arguments: seed=1 --nme x"),
        (["--name", "x", "-seed=1"], "unrecognized arguments: -seed=1"),
    ],
)
def test_a_wrong_option(write, train, arguments, words):
    folder = write()
    code, out, err = train(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith("usage: hpsearch")
    assert words in err
    assert not (folder / "runs").exists()


def test_ranks_share_the_cores(write, train, monkeypatch):
    write()
    monkeypatch.setattr("hpsearch.cluster.machine.num_cores", lambda: 1)
    code, _, err = train("--ranks", "2", "shards=2")
    assert code == 2
    assert "--threads 1 for each of 2 ranks takes 2 cores" in err
    assert train("--name", "alone")[0] == 0


def test_other_commands_still_refuse_what_they_do_not_know(tmp_path, capsys):
    with pytest.raises(SystemExit):
        main(["checkpoint", str(tmp_path), "seed=1"])
    assert "unrecognized arguments: seed=1" in capsys.readouterr().err


# Files and folders.


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "mine.yaml: does not exist; check the path"),
        (b"- a\n", "mine.yaml: "),
        (b"", "mine.yaml: "),
        (b"\x89PNG\xff", "mine.yaml: is not a text file"),
        (b"steps: [1\n", "mine.yaml: is not YAML"),
    ],
)
@pytest.mark.parametrize("resume", [[], ["--resume", "auto"]])
def test_a_file_that_is_no_configuration(tmp_path, train, content, words, resume):
    if content is not None:
        (tmp_path / "mine.yaml").write_bytes(content)
    code, _, err = train(*resume)
    assert code == (2 if resume and content in (b"- a\n", b"") else 3)
    assert err.startswith("hpsearch: ")
    if code == 3:
        assert words in err
    assert not (tmp_path / "runs").exists()


def test_all_faults_are_listed_at_once(write, train):
    folder = write({"host.gamma": 2.0, "host.tua": 1.0, "reward": "money"})
    config = yaml_file.load(folder / "mine.yaml")
    del config["dimension"]
    (folder / "mine.yaml").write_text(yaml_file.dump(config))
    code, _, err = train("checkpoint.keep_last=1")
    lines = err.splitlines()
    assert code == 3
    assert lines[0] == f"hpsearch: mine.yaml has {len(lines) - 1} problems:"
    for words in (
        ["host.gamma", "2.0"],
        ["host.tua", "did you mean 'tau'"],
        ["reward", "'money'", "terminal"],
        ["dimension is missing"],
        ["checkpoint.keep_last", "1"],
    ):
        assert any(all(word in line for word in words) for line in lines[1:]), words


def test_a_place_where_no_folder_can_be(write, train):
    folder = write()
    (folder / "file").write_text("mine")
    for arguments in (["--runs", "file"], ["--runs", ".", "--name", "file"]):
        code, out, err = train(*arguments)
        assert (code, out) == (6, "")
        assert err.startswith(f"hpsearch: a file operation failed {folder}/file")
    assert (folder / "file").read_text() == "mine"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_is_not_writable(write, train):
    folder = write()
    (folder / "runs").mkdir(mode=0o500)
    code, _, err = train()
    assert code == 6
    assert "make its folder writable" in err


def test_a_full_disk_ends_as_one(write, train, monkeypatch):
    def full(*_: object) -> None:
        raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))

    monkeypatch.setattr("safetensors.torch.save_file", full)
    write()
    code, _, err = train()
    assert code == 6
    assert "Disk quota exceeded" in err
    assert "free some space, then run the same command again" in err


def test_the_folder_of_a_study_is_refused(write, train):
    folder = write()
    spec = StudyDir(folder / "runs" / "tiny").spec
    spec.parent.mkdir(parents=True)
    spec.write_text("{}")
    code, _, err = train("--name", "tiny")
    assert code == 4
    assert f"{folder}/runs/tiny is the folder of a study or of its trial;" in err
    assert list(spec.parent.iterdir()) == [spec]


def test_a_checkpoint_is_asked_for_where_something_trains(tmp_path):
    for path in (".", "nowhere"):
        message = refused(tmp_path, "checkpoint", path, code=2)
        assert message.startswith(f"{path} is no folder of a run or a trial; they are RUNS/NAME")
    assert list(tmp_path.iterdir()) == []


# Going on or not.


def test_resume_on_the_command_line(write, train):
    folder = write()
    code, _, err = train("--resume", "must")
    assert code == 4
    assert "checkpoint.resume is must, but" in err
    assert err.count("\n") == 1
    assert train()[0] == 0
    assert train("--resume", "must", "steps=16")[1].startswith("mine goes on from step 12\n")
    code, _, err = train("seed=5")
    assert code == 4
    assert "differs in seed; give the run another --name, or begin it anew with --res" in err
    code, out, _ = train("seed=5", "--resume", "never")
    assert code == 0
    assert out.startswith("mine begins at step 0\n")
    assert config_of(folder)["seed"] == 5
    assert sorted(checkpoint.valid_steps(folder / "runs/mine/checkpoints")) == [8, 12]
    assert [row["step"] for row in TrialDir(folder / "runs/mine").read_metrics()] == [4, 8, 12]


@pytest.mark.slow
def test_ctrl_c_of_a_run_that_begins_anew_says_how_to_go_on(write):
    """Before, it said that the same command goes on, which would have removed what was saved."""
    folder = write(ENDLESS)
    with Training(folder, "--resume", "never") as training:
        trial = TrialDir(folder / "runs/mine")
        training.wait_until(lambda: trial.heartbeat.try_read() is not None)
        code, output = training.end(signal.SIGINT)
    assert code == 130
    assert "the same command goes on with --resume auto\n" in output


def test_a_damaged_checkpoint_is_named_and_left_out(write, train):
    folder = write()
    assert train("--name", "whole")[0] == 0
    assert train("steps=8")[0] == 0
    state = checkpoint.path_of(folder / "runs/mine/checkpoints", 8) / checkpoint.STATE
    state.write_text("{}")
    code, out, _ = train()
    assert code == 0
    assert f"the checkpoint {state.parent} is damaged and left out" in out
    assert "mine goes on from step 4" in out
    assert_same_end(folder, "mine", "whole")


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            ["host.net_arch=[9]"],
            "same structure, but those of the host in .* differ; use its .*net_arch",
        ),
        (["checkpoint.warm_start=nowhere"], "there is no checkpoint at nowhere; name one"),
    ],
)
def test_a_warm_start_that_does_not_fit(write, train, changes, sentence):
    folder = write({"steps": 4})
    assert train("--name", "first")[0] == 0
    path = checkpoint.path_of(folder / "runs/first/checkpoints", 4)
    code, _, err = train(f"checkpoint.warm_start={path}", *changes)
    assert code in (4, 7)
    assert re.search(sentence, err)
    assert err.count("\n") == 1


# Training that breaks.


@pytest.mark.parametrize(
    ("arguments", "kind", "words"),
    [
        (WILD, "nan", "the weights became infinite or NaN; lower the learning rate"),
        ([*WILD, "monitor.max_loss=1e6"], "diverged", "lower the learning rate, or raise"),
        (["monitor.max_loss=1e-12"], "diverged", "above max_loss 1e-12"),
    ],
)
def test_a_run_that_breaks_says_why(write, train, arguments, kind, words):
    """Before, the display met a population without members."""
    folder = write()
    code, _, err = train(*arguments)
    assert code == 8
    assert err.startswith(f"hpsearch: training failed ({kind}): ")
    assert words in err
    assert err.count("\n") == 1
    result = TrialDir(folder / "runs/mine").attempt(1).read_result()
    assert (result.status, result.kind) == ("failed", kind)
    before = files_of(folder / "runs/mine/checkpoints")
    assert train(*arguments)[0] == 8
    assert files_of(folder / "runs/mine/checkpoints").items() >= before.items()


# What a run may be called, and what it begins with.


@pytest.mark.parametrize("name", ["../x", "a/b", "", ".hidden", "x" * 65])
def test_a_name_that_is_no_folder_of_its_own_is_refused(write, train, name):
    folder = write()
    code, out, err = train("--name", name)
    assert (code, out) == (2, "")
    assert "the name of a run must begin with a letter or digit, and have" in err
    assert not (folder / "runs").exists()


def test_a_study_in_place_of_a_configuration_is_refused(write, train):
    folder = write()
    (folder / "mine.yaml").write_text("name: tiny\nspace: {}\nobjectives: []\n")
    code, _, err = train()
    assert code == 3
    assert "the file holds a study and no trainer's configuration; run it with: hpsearch run" in err


def test_a_start_that_failed_leaves_the_name_free(write, train):
    write()
    code, _, err = train("checkpoint.warm_start=nowhere", "seed=2")
    assert code == 4
    assert "there is no checkpoint at nowhere" in err
    assert train()[0] == 0


def test_a_run_or_its_newest_checkpoint_is_a_warm_start(write, train):
    folder = write({"steps": 4})
    assert train("--name", "first")[0] == 0
    assert train("--name", "second", "checkpoint.warm_start=runs/first")[0] == 0
    newest = checkpoint.path_of(folder / "runs/first/checkpoints", 4)
    assert train("--name", "third", f"checkpoint.warm_start={newest}")[0] == 0
    second, third = (
        checkpoint.load(checkpoint.path_of(folder / "runs" / name / "checkpoints", 4)).tensors
        for name in ("second", "third")
    )
    assert all(torch.equal(second[name], third[name]) for name in third)
    code, out, _ = train("--name", "second", "checkpoint.warm_start=runs/first", "steps=8")
    assert code == 0
    assert out.startswith("second goes on from step 4; warm_start is for a fresh one\n")


def test_a_checkpoint_cannot_be_asked_for_where_nothing_trains(write, train, capsys):
    folder = write({"steps": 4})
    assert train()[0] == 0
    assert main(["checkpoint", str(folder / "runs/mine")]) == 2
    assert "no job trains in" in capsys.readouterr().err
    assert not (folder / "runs/mine/save").exists()


@pytest.mark.parametrize(("is_busy", "code"), [(False, 2), (True, 0)])
def test_a_job_that_has_long_work_to_do_is_asked_though_it_is_silent(write, train, is_busy, code):
    folder = write({"steps": 4})
    assert train()[0] == 0
    trial = TrialDir(folder / "runs/mine")
    number = trial.newest_attempt()
    (trial.attempt(number).root / "result.json").unlink()
    member = MemberHeartbeat(0, number, "token", 2, 0)
    trial.heartbeat.replace(JobHeartbeat(time.time() - 3600, "here", 1, is_busy, 1.0, (member,)))
    assert main(["checkpoint", str(folder / "runs/mine")]) == code
