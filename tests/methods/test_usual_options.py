"""Options that nobody chose: Adam on tables, the papers' SGD for pictures, resolved once and written down."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits

import colonnade as cn
from colonnade.core.optim import SGD, Adam
from colonnade.core.settings import EPOCHS, TABLE_ROUNDS
from colonnade.errors import ConfigError
from colonnade.federation.plan_document import plan_document
from colonnade.federation.terms import method_in
from colonnade.jobs.job_file import read_job
from colonnade.jobs.run_job import resume_job, train_job
from plans import plan_for

TABLES, _ = cn.load("breast_cancer", parties=3, owner="first")
PICTURES, _ = cn.load("digits", parties=4, rows=100)
PAPERS = {"vimadmm": (0.1, 20), "vimadmm-j": (0.1, 20), "vimsgd": (0.3,), "splitnn": (0.1,), "cvfl": (0.02,)}


def options_of(method: cn.Method) -> tuple[Any, ...]:
    steps = (method.local_steps,) if isinstance(method, cn.VIMADMM | cn.VIMADMMJ) else ()
    return method.optimizer, method.lr, *steps


@pytest.mark.parametrize("name", PAPERS)
def test_pictures_are_trained_as_in_the_papers_and_tables_with_adam(name: str) -> None:
    for tables in (PICTURES, TABLES):
        plan = plan_for(tables, name)
        on_tables = tables is TABLES
        assert options_of(plan.method)[:1] == ("adam" if on_tables else "sgd",)
        if not on_tables:
            assert options_of(plan.method)[1:] == PAPERS[name]
        kind = Adam if on_tables else SGD
        assert all(isinstance(builder, kind) and builder.lr == plan.method.lr for builder in plan.optimizers)
        assert isinstance(plan.method.owner_optimizer, kind)


@pytest.mark.parametrize("name", PAPERS)
def test_the_papers_settings_can_be_had_on_tables(name: str) -> None:
    assert options_of(plan_for(TABLES, cn.methods()[name](optimizer="sgd")).method)[1:] == PAPERS[name]
    rated = plan_for(TABLES, cn.methods()[name](lr=0.07)).method
    assert (rated.optimizer, rated.lr) == ("sgd", 0.07), "a rate alone is one of SGD"


def test_pictures_can_have_adam() -> None:
    assert plan_for(PICTURES, cn.VIMSGD(optimizer="adam")).optimizers[0] == Adam(0.001, 0.001)


def test_small_tables_have_rounds_enough_and_asked_numbers_are_kept() -> None:
    few, many = cn.split(np.eye(40, 4), np.arange(40) % 2, 2), cn.split(np.ones((9000, 2)), np.arange(9000) % 2, 2)
    assert plan_for(few, "fdml").settings.rounds == TABLE_ROUNDS
    assert plan_for(many, "fdml").settings.rounds == EPOCHS * 36
    assert plan_for(few, "fdml", epochs=3).settings.rounds == 3
    assert plan_for(PICTURES, "fdml").settings.rounds == EPOCHS
    assert plan_for(TABLES, "oneshot").settings.rounds == 1


def test_what_was_resolved_is_in_the_run_folder_and_a_job_resumes(tmp_path: Path) -> None:
    place = tmp_path / "job.toml"
    place.write_text('[data]\nload = "breast_cancer"\nparties = 2\n[train]\nmethod = "fdml"\nepochs = 1\n')
    run = train_job(read_job(place), tmp_path / "run")
    assert run.description["method"] | {"name": "fdml", "optimizer": "adam", "lr": 0.001} == run.description["method"]
    assert run.description["optimizer"][0]["kind"] == "adam"
    place.write_text(place.read_text().replace("epochs = 1", "epochs = 2"))
    assert resume_job(read_job(place), tmp_path / "run").round == 4


def test_what_was_resolved_is_in_the_plan_that_all_sign_and_a_party_takes_it_from_there() -> None:
    document = plan_document({"job": "any", "owner": "bank", "seals": []}, plan_for(TABLES, "vimadmm"), [], 2, 0, {})
    assert (document["method"]["optimizer"], document["method"]["lr"]) == ("adam", 0.0003)
    assert method_in(document) == plan_for(TABLES, "vimadmm").method != cn.VIMADMM()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"optimizer": "adm"}, "unknown optimizer of vimadmm 'adm'; did you mean 'adam'"),
        ({"lr": "fast"}, "lr='fast' is not a number"),
        ({"lr": -1.0}, "lr=-1.0 is out of range"),
        ({"local_steps": 1.5}, "local_steps=1.5 is not a whole number"),
        ({"local_steps": 0}, "local_steps=0 is out of range"),
    ],
)
def test_mistakes_are_told_in_a_sentence(options: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError) as error:
        cn.VIMADMM(**options)
    assert told in str(error.value)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["vimsgd", "vimadmm"])
def test_six_numeric_views_are_learnt_with_no_option(name: str) -> None:
    X, y = load_digits(return_X_y=True)
    train, test = cn.split(X[:1400], y[:1400], 6), cn.split(X[1400:], y[1400:], 6)
    assert cn.train(train, name).evaluate(test)["accuracy"] > 0.9
