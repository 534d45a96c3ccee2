"""Searches with a budget: what is drawn, that it goes on, that validation rows judge, and what is advised."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import colonnade as cn
from colonnade.cli import app
from colonnade.errors import ConfigError
from colonnade.study.sweep.search_space import Between, space_of
from colonnade.study.sweep.searches import RandomSearch, make_search
from colonnade.study.sweep.sweep_table import Sweep

TABLES, TEST = cn.load("breast_cancer", parties=3, owner="first", rows=120)
SPACE: dict[str, Any] = {"lr": "0.0001..0.01", "embedding": [4, 8]}
EXAMPLE = Path(__file__).parents[2] / "examples" / "sweep.toml"


def search(folder: Path, over: Any = SPACE, **more: Any) -> Sweep:
    options: dict[str, Any] = {"budget": 3, "rounds": 2, "batch": 50, "processes": 1} | more
    return cn.sweep(TABLES, cn.SplitNN(optimizer="adam"), over, folder=folder, **options)


def test_a_range_is_drawn_by_magnitude_if_it_spans_one() -> None:
    assert Between.parse("lr", "0.001..0.1").at(0.5) == 0.01
    assert Between.parse("rho", "1.0..2.0").at(0.5) == 1.5
    assert {Between.parse("local_steps", "1..3").at(share / 10) for share in range(11)} == {1, 2, 3}


def test_random_points_cover_the_space_and_never_repeat() -> None:
    points = RandomSearch(space_of(SPACE)).ask(40)
    assert {point["embedding"] for point in points} == {4, 8}
    assert all(0.0001 <= point["lr"] <= 0.01 for point in points)
    assert sum(point["lr"] < 0.001 for point in points) in range(12, 29), "as many small rates as large ones"
    assert len(RandomSearch(space_of({"embedding": [4, 8]})).ask(9)) == 2


@pytest.mark.parametrize("how", ["random", "optuna"])
def test_it_goes_on_where_it_was_and_trains_nothing_twice(tmp_path: Path, how: str) -> None:
    if how == "optuna":
        pytest.importorskip("optuna")
    seen: list[Any] = []
    few = search(tmp_path, search=how, on_point=seen.append)
    assert len(few.rows) == len(seen) == 3
    more = search(tmp_path, search=how, budget=5, on_point=seen.append)
    assert more.rows[:3] == few.rows and len(seen) == 5


def test_optuna_draws_near_good_points() -> None:
    pytest.importorskip("optuna")
    asked = []
    studied = make_search("optuna", space_of({"lr": "0.0001..1.0"}))
    for _ in range(40):
        (point,) = studied.ask(1)
        asked.append(point["lr"])
        studied.tell(point, -abs(point["lr"] - 0.5))
    assert sum(rate > 0.1 for rate in asked[20:]) > 1.5 * sum(rate > 0.1 for rate in asked[:10])


def test_validation_rows_judge_and_test_rows_have_no_say(tmp_path: Path) -> None:
    found = search(tmp_path, test=TEST)
    assert found.judge == "valid_auc" and {"valid_auc", "test_auc"} <= found.rows[0].keys()
    assert found.best()["valid_auc"] == max(row["valid_auc"] for row in found.rows)


def test_the_advice_trains_the_best_point(tmp_path: Path) -> None:
    found = search(tmp_path, SPACE | {"batch": [40, 50]})
    best, chosen = found.best(), found.chosen
    run = cn.train(TABLES, cn.SplitNN(optimizer="adam", **chosen["method"]), rounds=2, valid=0.2, **chosen["train"])
    assert run.history[-1]["valid_auc"] == best["valid_auc"]
    assert f"cn.SplitNN(embedding={best['embedding']}" in found.advice and f"batch={best['batch']}" in found.advice
    assert f"[train] batch = {best['batch']}" in found.advice


def test_without_a_space_it_searches_the_usual_one(tmp_path: Path) -> None:
    found = cn.sweep(TABLES, "splitnn", budget=2, rounds=1, folder=tmp_path, processes=1)
    assert found.over == ("optimizer", "lr", "batch", "embedding") and found.rows[0]["optimizer"] == "adam"


def test_time_runs_out(tmp_path: Path) -> None:
    assert len(search(tmp_path, budget=50, seconds=1e-6).rows) == 1


@pytest.mark.parametrize(
    ("over", "options", "told"),
    [
        ({"lr": "0.1..0.001"}, {}, "over= has lr='0.1..0.001'; give a list of values, or a range"),
        ({"lr": "a..b"}, {}, "give a list of values, or a range"),
        (SPACE, {"budget": None}, "the range lr='0.0001..0.01', which has no end; say budget=20"),
        (SPACE, {"budget": 0}, "budget=0 is out of range"),
        (SPACE, {"seconds": -1.0}, "seconds=-1.0 is out of range"),
        ({"embedding": [4]}, {"budget": None, "seconds": 5.0}, "seconds=5.0 came without a budget"),
        (SPACE, {"search": "grid"}, "unknown search 'grid'"),
        ({"rat": "0.1..1.0"}, {}, "unknown key to sweep over 'rat'"),
    ],
)
def test_mistakes_are_told_in_a_sentence(tmp_path: Path, over: Any, options: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError) as error:
        search(tmp_path, over, **options)
    assert told in str(error.value)


def test_a_whole_grid_chooses_nothing(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="trained a whole grid and chose nothing"):
        search(tmp_path, {"embedding": [4]}, budget=None).advice  # noqa: B018


def test_the_example_job_searches(tmp_path: Path) -> None:
    words = ["sweep", EXAMPLE, "--budget", 2, "--processes", 1, "--folder", tmp_path / "found"]
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == 0, result.output
    assert "best of 2 by valid_auc" in result.output and "cn.train(tables, cn.SplitNN(" in result.output
