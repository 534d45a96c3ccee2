from pathlib import Path

import pytest

import colonnade as cn
from colonnade.errors import CheckpointError, ConfigError
from colonnade.jobs.job_file import read_job
from colonnade.jobs.run_job import resume_job, train_job

EXAMPLE = Path(__file__).parents[2] / "examples" / "job.toml"
SMALL = """
[data]
load = "digits"
parties = 2
rows = 200

[train]
method = "vafl"
epochs = 2
batch = 100
"""


@pytest.fixture
def write(tmp_path):
    def write(text):
        path = tmp_path / "job.toml"
        path.write_text(text)
        return path

    return write


def test_example_job_is_read_whole():
    job = read_job(EXAMPLE)
    assert job.method == cn.VIMADMM(rho=1.0, local_steps=20)
    assert (job.data.load, job.data.parties, job.train.epochs, job.train.valid) == ("digits", 4, 5, 0.1)
    assert (job.model, job.optimizer) == (cn.MLP(hidden=(120,)), cn.SGD(lr=0.1, momentum=0.9))
    assert str(job.default_folder) == "runs/vimadmm-digits-0"


def test_one_model_and_optimizer_per_party(write):
    text = SMALL + '[[model]]\nkind = "mlp"\nhidden = [9]\n[[model]]\nkind = "mlp"\n[optimizer]\nkind = "adam"\n'
    job = read_job(write(text))
    assert job.model == [cn.MLP(hidden=(9,)), cn.MLP()]
    assert job.optimizer == cn.Adam()


def test_job_trains_as_the_api_does(write):
    run = train_job(read_job(write(SMALL)))
    rows, test = cn.load("digits", parties=2, rows=200)
    same = cn.train(rows, "vafl", epochs=2, batch=100, test=test)
    assert [row["test_loss"] for row in run.history] == [row["test_loss"] for row in same.history]
    assert run.ledger.to_json() == same.ledger.to_json()


def test_resumed_job_goes_on_exactly(write, tmp_path):
    longer = SMALL.replace("epochs = 2", "epochs = 4")
    whole = train_job(read_job(write(longer)))
    train_job(read_job(write(SMALL)), tmp_path / "run")
    resumed = resume_job(read_job(write(longer)), tmp_path / "run")
    assert [row["test_loss"] for row in resumed.history] == [row["test_loss"] for row in whole.history]


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ("batch = 100", "batch = 50", "has batch 100, but the job says 50"),
        ("vafl", "fdml", "has method's name 'vafl', but the job says 'fdml'"),
        ("rows = 200", "rows = 300", "has data's rows 200, but the job says 300"),
        ("[train]", '[model]\nkind = "mlp"\n[train]', "has model"),
        ("[train]", '[optimizer]\nkind = "adam"\n[train]', "has optimizer"),
    ],
)
def test_resume_refuses_another_job(write, tmp_path, before, after, told):
    train_job(read_job(write(SMALL)), tmp_path / "run")
    with pytest.raises(CheckpointError, match=told):
        resume_job(read_job(write(SMALL.replace(before, after))), tmp_path / "run")


def test_resume_accepts_the_same_models(write, tmp_path):
    job = read_job(write(SMALL + '[model]\nkind = "mlp"\nhidden = [8]\n[optimizer]\nkind = "sgd"\n'))
    train_job(job, tmp_path / "run")
    assert resume_job(job, tmp_path / "run").round == 4


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[trian]\n", "unknown section of a job 'trian'; did you mean 'train'?"),
        ("[federation]\n", "is a job between organisations, and was taken for one of this process"),
        ("data = 3\n", r"data = 3 is not a section; write \[data\]"),
        ('[train]\nmethod = "vafl"\n', r"no load in \[data\]"),
        ("[data]\nload = 3\n", r"load = 3 in \[data\] is not a text"),
        ('[data]\nload = "digits"\nparty = 3\n', r"unknown key of \[data\] 'party'; did you mean 'parties'"),
        ('[data]\nload = "digits"\nparties = 1.5\n', "is not a whole number or a list or a table"),
        ('[data]\nload = "digits"\nparties = [1.5]\n', "must hold whole numbers"),
        ('[data]\nload = "digits"\nrows = 0\n', "rows = 0 .* give at least 1"),
        ('[data]\nload = "digits"\nseed = -1\n', "seed = -1 .* give at least 0"),
        (SMALL.replace("100", '"100"'), r"batch = '100' in \[train\] is not a whole number"),
        (SMALL.replace("100", "true"), "batch = True"),
        (SMALL + "valid = []\n", r"valid = \[\] in \[train\] is not a number"),
        (SMALL + "thread = 1\n", "did you mean 'threads'"),
        (SMALL.replace("vafl", "vimadm"), "unknown method 'vimadm'; did you mean 'vimadmm'"),
        (SMALL + "[method]\nro = 2.0\n", "unknown option of vafl 'ro'"),
        (SMALL + '[method]\nlr = "x"\n', "vafl: lr='x' is not a number"),
        (SMALL + "[model]\nhidden = [3]\n", "needs a kind"),
        (SMALL + '[model]\nkind = "mpl"\n', "unknown model 'mpl'; did you mean 'mlp'"),
        (SMALL + '[model]\nkind = "mlp"\nhiden = [3]\n', "unknown option of model mlp 'hiden'; did you mean 'hidden'"),
        (SMALL + '[model]\nkind = "mlp"\nhidden = 3\n', "not a list of positive whole numbers"),
        (SMALL + '[model]\nkind = "mlp"\nhidden = [0]\n', "not a list of positive whole numbers"),
        (SMALL + '[model]\nkind = "cnn"\nupsample = 1.5\n', "is not a whole number of at least 0"),
        (SMALL + '[optimizer]\nkind = "sgd"\nlr = "fast"\n', "is not a number of at least 0"),
        (SMALL + '[optimizer]\nkind = "sgd"\nlr = -1\n', "is not a number of at least 0"),
        (SMALL + "model = 3\n", r"unknown key of \[train\] 'model'"),
        (SMALL + '[[seal]]\nkind = "bit"\n', "unknown seal 'bit'; did you mean 'bits'"),
        (SMALL + '[[seal]]\nkind = "bits"\nwidth = 3\n', "unknown option of seal bits 'width'"),
        (SMALL + '[[seal]]\nkind = "bits"\nbits = 40\n', "bits=40 is out of range"),
        (SMALL + '[[seal]]\nkind = "bits"\nbits = "four"\n', "bits='four' is not a whole number"),
        (SMALL + '[[seal]]\nkind = "noise"\nunit = "person"\n', "'person'"),
        (SMALL + "[[seal]]\nbits = 4\n", "it needs a kind"),
        (SMALL + '[[seal]]\nkind = "blind"\n[[seal]]\nkind = "blind"\n', "which do the same"),
        ("[data\n", r"not valid TOML: .*at line 1, column 6\)\."),
    ],
)
def test_bad_jobs_are_told_in_one_sentence(write, text, told):
    with pytest.raises(ConfigError, match=told) as caught:
        read_job(write(text))
    assert "\n" not in str(caught.value) and str(caught.value).endswith(".")


def test_files_that_are_no_text(tmp_path):
    (tmp_path / "raw").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="not a text in UTF-8"):
        read_job(tmp_path / "raw")
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        read_job(tmp_path / "none.toml")
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        read_job(tmp_path)


def test_too_few_models_are_refused(write):
    job = read_job(write(SMALL + '[[model]]\nkind = "mlp"\n'))
    with pytest.raises(ConfigError, match="1 builders for 2 parties"):
        train_job(job)


def test_seals_of_a_job(write, tmp_path):
    sealed = SMALL + '[[seal]]\nkind = "bits"\nbits = 3\n[[seal]]\nkind = "random-labels"\n'
    job = read_job(write(sealed))
    assert [seal.kind for seal in job.seals] == ["bits", "random-labels"]
    train_job(job, tmp_path / "run")
    resume_job(job, tmp_path / "run")
    other = read_job(write(sealed.replace("bits = 3", "bits = 4")))
    with pytest.raises(CheckpointError, match=r"has seal .* but the job says"):
        resume_job(other, tmp_path / "run")


OWNERS = """
[data]
load = "digits"
parties = 4
rows = 200
owners = 3
alpha = 0.5

[train]
method = "fedoptimus"
rounds = 4
batch = 16
valid = 0.1

[method]
every = 2
select_every = 2
"""


def test_a_job_with_several_owners_and_its_resumption(write, tmp_path):
    run = train_job(read_job(write(OWNERS)), tmp_path / "run")
    assert run.ledger.owners == ["owner 1", "owner 2", "owner 3"] and run.history[-1]["valid_loss"] > 0
    again = cn.resume(tmp_path / "run", rounds=6)  # finds its tables by itself
    assert again.round == 6 and again.ledger.total > run.ledger.total
    with pytest.raises(CheckpointError, match="alpha"):
        resume_job(read_job(write(OWNERS.replace("0.5", "0.6"))), tmp_path / "run")
    page = run.report(tmp_path / "page.html").read_text()
    assert "owners to parties" in page and "owners to owners" in page


def test_a_job_cannot_share_among_nobody(write):
    with pytest.raises(ConfigError, match="owners = 0"):
        read_job(write(OWNERS.replace("owners = 3", "owners = 0")))
    with pytest.raises(ConfigError, match="give owners=5"):
        train_job(read_job(write(OWNERS.replace("owners = 3\n", ""))))


def test_the_example_of_several_owners_is_read_whole():
    job = read_job(EXAMPLE.with_name("owners.toml"))
    assert (job.data.owners, job.data.alpha) == (5, 0.5) and job.method == cn.FedOptimus(lr=0.005)
