import json
from itertools import pairwise

import pytest
import torch
from sklearn.metrics import confusion_matrix, roc_auc_score

import colonnade as cn
from colonnade.core.task import Classes, Several, Values
from colonnade.errors import TableError
from colonnade.report.summary import read_summary
from colonnade.run.findings import MOST_PLACES, MOST_POINTS, find, map_findings


class Map:
    def __init__(self, points, labels):
        self.points, self.labels = points, labels


def area(points):
    return sum((x1 - x0) * (y0 + y1) / 2 for (x0, y0), (x1, y1) in pairwise(points))


def test_confusion_counts_rows_by_true_and_predicted_class():
    torch.manual_seed(0)
    outputs, labels = torch.randn(200, 4), torch.randint(4, (200,))
    found = find(Classes(4), outputs, labels)
    assert found["rows"] == 200 and "roc" not in found
    assert found["confusion"] == confusion_matrix(labels, outputs.argmax(1), labels=range(4)).tolist()


def test_two_classes_have_curves_whose_areas_are_right():
    torch.manual_seed(0)
    labels = torch.randint(2, (5000,))
    outputs = torch.randn(5000, 2) + torch.nn.functional.one_hot(labels)
    found = find(Classes(2), outputs, labels)
    assert len(found["roc"]) <= MOST_POINTS and found["roc"][0] == [0.0, 0.0] and found["roc"][-1] == [1.0, 1.0]
    assert abs(area(found["roc"]) - roc_auc_score(labels, outputs[:, 1] - outputs[:, 0])) < 0.01
    assert found["pr"][-1][0] == 1.0 and abs(found["pr"][-1][1] - labels.double().mean()) < 1e-4
    assert sum(rows for _, _, rows in found["calibration"]) == 5000
    assert len(json.dumps(found)) < 20_000


def test_one_class_alone_has_no_curves():
    assert "roc" not in find(Classes(2), torch.randn(5, 2), torch.zeros(5, dtype=torch.long))


def test_values_have_a_histogram_each():
    predicted, true = torch.tensor([[1.0, 5.0], [2.0, 5.0]]), torch.tensor([[1.0, 3.0], [2.0, 6.0]])
    first, second = find(Values(2), predicted, true)["residuals"]
    assert first["counts"][15] == 2 and sum(second["counts"]) == 2 and second["reach"] == 2.0


def test_several_labels_have_hits_and_misses():
    outputs, labels = torch.tensor([[1.0, -1.0], [1.0, -1.0]]), torch.tensor([[1, 0], [0, 1]])
    assert find(Several(2), outputs, labels)["labels"] == [[1, 1, 0, 0], [0, 0, 1, 1]]


def test_outputs_that_are_no_numbers_show_nothing():
    assert find(Classes(2), torch.tensor([[torch.nan, 0.0]]), torch.tensor([1])) == {"rows": 1}


def test_maps_are_thinned():
    found = map_findings(Map({"a": torch.randn(1000, 2)}, torch.arange(1000) % 3))
    assert len(found["maps"]["a"]) == len(found["classes"]) == 250 <= MOST_PLACES
    with pytest.raises(TableError, match="one class per row"):
        map_findings(Map({}, torch.zeros(3, 2)))


@pytest.fixture(scope="module")
def digits():
    return cn.load("digits", parties=2, rows=300)


def test_run_keeps_what_its_last_evaluation_showed(digits, tmp_path):
    train, test = digits
    run = cn.train(train, "vimadmm", epochs=2, batch=100, test=test, folder=tmp_path / "run")
    found = read_summary(tmp_path / "run")["findings"]
    right = sum(found["confusion"][k][k] for k in range(10)) / found["rows"]
    assert found["part"] == "test" and found["round"] == run.round
    assert right == pytest.approx(run.history[-1]["test_accuracy"])
    assert found["importance"] == pytest.approx(run.importance())
    assert cn.resume(tmp_path / "run").findings == found


def test_findings_cost_no_message(digits):
    train, test = digits
    run = cn.train(train, "vimadmm-j", rounds=2, batch=100, test=test, evaluate_every=1)
    assert {line.purpose for line in run.ledger.rows} == {"train", "evaluate"}
    assert "importance" not in run.findings  # only the parties know it
    assert run.importance() == run.findings["importance"]


def test_findings_are_those_of_the_best_model(digits):
    run = cn.train(digits[0], "vimsgd", epochs=6, batch=100, valid=0.2, stop_drop=100, evaluate_every=1)
    best = max(reversed(run.history), key=lambda row: row["valid_accuracy"])
    assert run.findings["round"] == best["round"] and run.findings["part"] == "valid"
    found = run.findings["confusion"]
    assert sum(found[k][k] for k in range(10)) / run.findings["rows"] == pytest.approx(best["valid_accuracy"])


def test_maps_stay_with_the_run(digits, tmp_path):
    run = cn.train(digits[0], "fdml", rounds=1, batch=100)
    page = run.report(tmp_path / "page.html", maps=Map({"party 1": torch.randn(20, 2)}, torch.arange(20) % 10))
    assert "How each party sees the rows" in page.read_text()
    run.save(tmp_path / "run")
    assert len(read_summary(tmp_path / "run")["findings"]["maps"]["party 1"]) == 20
