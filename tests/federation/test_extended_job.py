"""A finished job of one round with a party more, one less, or one anew: who is asked, what is refused."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from typing import Any

import pytest

import colonnade as cn
from colonnade.errors import ColonnadeError, ConfigError, ManifestError, MessageError, TableError
from colonnade.federation.extended_job import EarlierRun, ExtendedJob, job_terms
from colonnade.federation.owner_process import OwnerProcess
from colonnade.federation.side_files import read_owner_file
from colonnade.federation.terms import digest
from colonnade.store import checkpoint
from near import PARTIES, Near, Sides

pytest.importorskip("pyarrow")

SMALL = '[method]\nlearner = "linear"\ntop = "linear"\nfolds = 2\n'
LEFT_OUT = '[[party]]\nname = "mill"\nkey = "../mill/identity.pub"\n'


class Extending:
    """The three sides of ``near``, with one folder of the owner for each job."""

    def __init__(self, sides: Sides) -> None:
        self.sides = sides
        sides.write_parties("runs = 9", peers="")

    def file(self, *, extend: str | None = None, mill: bool = True, **job: str) -> Any:
        more = job.pop("more", SMALL) + ("" if extend is None else f'[extend]\nfolder = "../{extend}"\n')
        more += job.pop("after", "")
        given = {"method": "oneshot", "train": "rounds = 1", "federation": 'labels = "shown"', "more": more, **job}
        self.sides.owner_file(**given)
        path = self.sides.folder / "bank" / "job.toml"
        path.write_text(path.read_text() if mill else path.read_text().replace(LEFT_OUT, ""))
        return read_owner_file(path)

    def owner(self, folder: str, **job: Any) -> OwnerProcess:
        """The owner of one job, and new processes of the parties."""
        self.sides.restart()
        job_file = self.file(**job)
        self.sides.guests |= {name: self.sides.guest(name) for name in job_file.others}
        listener: Any = Near(self.sides.guests, {})
        return OwnerProcess(job_file, self.sides.folder / folder, listener=listener)

    def run(self, folder: str, **job: Any) -> cn.Run:
        host = self.owner(folder, **job)
        try:
            host.gather()
            return host.train()
        finally:
            host.close()


@pytest.fixture
def extending(sides: Sides) -> Extending:
    return Extending(sides)


def asked(run: cn.Run, purpose: str = "train") -> set[str]:
    return {line.sender for line in run.ledger.rows if line.purpose == purpose} - {"owner"}


def test_a_party_more_and_then_one_less(extending: Extending) -> None:
    few = extending.run("few", mill=False)
    more = extending.run("more", extend="few")
    assert asked(few) == {"shop"} and asked(more) == {"mill"}
    assert asked(more, "evaluate") == {"shop", "mill"}
    less = extending.run("less", extend="more", mill=False)
    assert asked(less) == set(), "nobody is asked"
    assert less.history[-1]["test_loss"] == few.history[-1]["test_loss"], "the model of before"
    assert less.owner.replies.keys() == {"shop"} and more.owner.replies.keys() == {"shop", "mill"}


def test_one_anew_is_asked_again(extending: Extending) -> None:
    extending.run("first")
    again = extending.run("again", extend="first", after='anew = ["mill"]\n')
    assert asked(again) == {"mill"}
    terms = json.loads((extending.sides.folder / "again" / "terms.json").read_text())
    assert terms["extends"]["stays"] == ["shop"]
    assert "'shop' stay as an earlier job left them" in " ".join(terms["learns"])


def test_noise_on_labels_is_that_of_the_first_job(extending: Extending) -> None:
    """Labels that were made noisy twice would be known better."""
    noisy = f'{SMALL}[[seal]]\nkind = "random-labels"\nepsilon = 1.0\n'
    few = extending.run("few", mill=False, more=noisy)
    more, apart = extending.run("more", extend="few", more=noisy), extending.run("apart", more=noisy)
    assert few.owner.soft.equal(more.owner.soft)
    assert not few.owner.soft.equal(apart.owner.soft), "control: another job draws anew"


def refusal(kind: type[ColonnadeError], work: Callable[[], Any]) -> str:
    with pytest.raises(kind) as caught:
        work()
    return str(caught.value)


def test_what_cannot_be_extended(extending: Extending) -> None:
    folder = extending.sides.folder
    (folder / "empty").mkdir()
    assert "holds no training of a federation" in refusal(
        ConfigError, lambda: extending.file(extend="empty") and extending.owner("x", extend="empty")
    )
    extending.run("rounds", method="splitnn", train="rounds = 2", federation='labels = "inferable"', more="")
    assert "a job of splitnn whose owner keeps no replies" in refusal(
        ConfigError, lambda: extending.owner("x", extend="rounds")
    )
    extending.run("first")
    (folder / "first" / "ended.json").rename(folder / "first" / "kept.json")
    assert "is not finished" in refusal(ConfigError, lambda: extending.owner("x", extend="first"))
    (folder / "first" / "kept.json").rename(folder / "first" / "ended.json")
    other = SMALL.replace("folds = 2", "folds = 3")
    assert "differ in method.folds (2 then, 3 now)" in refusal(
        ManifestError, lambda: extending.owner("x", extend="first", more=other)
    )
    assert "differ in train.seed" in refusal(
        ManifestError, lambda: extending.owner("x", extend="first", train="rounds = 1\nseed = 5")
    )
    said = refusal(ConfigError, lambda: extending.owner("x", extend="first", after='anew = ["smith"]\n'))
    assert "unknown party in anew of [extend] 'smith'" in said
    assert not (folder / "x" / "terms.json").exists(), "nothing was begun"


def test_other_rows_files_labels_and_keys_of_the_owner(extending: Extending) -> None:
    bank, shop = (extending.sides.folder / name for name in ("bank", "shop"))
    extending.run("first")
    whole = (bank / "table.csv").read_bytes()
    (bank / "table.csv").write_bytes(whole.replace(b",1\r\n", b",0\r\n", 1))
    assert "the files changed since their rows were aligned" in refusal(
        ManifestError, lambda: extending.owner("x", extend="first")
    )
    (bank / "table.csv").write_bytes(whole)
    job = (bank / "job.toml").read_text()
    try:
        extending.file(extend="first")
        path = bank / "job.toml"
        path.write_text(path.read_text().replace('label = "churn"', 'label = "a"\nleave_out = ["churn"]'))
        file = read_owner_file(path)
        said = refusal(ConfigError, lambda: OwnerProcess(file, extending.sides.folder / "x", listener=Near({}, {})))  # type: ignore[arg-type]
        assert "learnt the label ['churn'], and this one has ['a']" in said
    finally:
        (bank / "job.toml").write_text(job)
    kept = shop / "identity.pub"
    mine = kept.read_text()
    kept.write_text((bank / "identity.pub").read_text())
    assert "'shop' has another key than in the job that is extended" in refusal(
        ConfigError, lambda: extending.owner("x", extend="first")
    )
    kept.write_text(mine)


def test_a_new_party_that_lacks_some_rows(extending: Extending) -> None:
    extending.run("few", mill=False)
    place = extending.sides.folder / "mill" / "table.csv"
    place.write_text("\n".join(place.read_text().splitlines()[:-5]) + "\n")
    said = refusal(TableError, lambda: extending.run("more", extend="few"))
    assert "35 rows are common now and 40 were in the job that is extended" in said


def test_what_a_party_that_stays_refuses(extending: Extending) -> None:
    folder = extending.sides.folder
    extending.run("first")
    place = folder / "shop" / "table.csv"
    whole = place.read_bytes()
    place.write_bytes(whole + b"c999,1,2,3\r\n")
    assert "'shop'" in refusal(ManifestError, lambda: extending.run("x1", extend="first"))
    place.write_bytes(whole)
    shutil.move(folder / "run-shop", folder / "elsewhere")
    said = refusal(ManifestError, lambda: extending.run("x2", extend="first"))
    assert "'shop' took no part in the job that the terms extend" in said
    shutil.rmtree(folder / "run-shop", ignore_errors=True)  # of a job that was refused
    shutil.move(folder / "elsewhere", folder / "run-shop")
    (ended,) = (folder / "run-shop").glob("*/ended.json")
    kept = ended.read_text()
    ended.unlink()
    assert "is not finished at 'shop'" in refusal(ManifestError, lambda: extending.run("x3", extend="first"))
    ended.write_text(kept)
    extending.sides.write_parties("runs = 1", peers="")
    assert "has let" in refusal(ManifestError, lambda: extending.run("x4", extend="first")), "it is one of its runs"
    extending.sides.write_parties("runs = 9", peers="")
    assert asked(extending.run("x5", extend="first")) == set(), "control: with all of that undone it works"


class Retrains(ExtendedJob):
    """An owner that forgot the replies of those who stay, and so asks them."""

    def replies_of(self, terms: Any) -> dict[str, Any]:
        return {}


def test_who_stays_is_not_trained_again(extending: Extending, monkeypatch: pytest.MonkeyPatch) -> None:
    extending.run("first")
    monkeypatch.setattr(ExtendedJob, "replies_of", Retrains.replies_of)
    said = refusal(MessageError, lambda: extending.run("again", extend="first"))
    assert "'shop' serves a job that leaves it as it is and was asked to train; evaluate or explain only" in said


def test_terms_that_lie_about_an_extension(extending: Extending) -> None:
    """Other terms than those of the first job, which the owner itself would not make: the party compares too."""
    extending.run("first")
    job_file = extending.file(extend="first")
    terms = job_terms(job_file)
    guest = extending.sides.guest("shop")
    folders = guest.handshake._folders
    earlier = folders.extended(terms)
    assert isinstance(earlier, EarlierRun) and earlier.run == 1
    lies = {
        "differ in method.folds": {**terms, "method": {**terms["method"], "folds": 3}},
        "differ in prepare.test": {**terms, "prepare": {**terms["prepare"], "test": 0.5}},
        "took no part": {**terms, "extends": {**terms["extends"], "of": 64 * "0"}},
        "'shop' took no part": {**terms, "extends": {**terms["extends"], "run": 32 * "0"}},
    }
    for words, lie in lies.items():
        assert words in refusal(ManifestError, lambda lie=lie: folders.extended(lie))  # type: ignore[misc]
    assert folders.extended({**terms, "extends": {**terms["extends"], "stays": ["mill"]}}) is None
    assert digest(terms) != digest({key: value for key, value in terms.items() if key != "extends"})


def test_a_party_that_reads_its_columns_otherwise_does_not_stay(extending: Extending) -> None:
    extending.sides.write_parties("runs = 9\nlayers = 0", peers="")  # of two columns it would send nothing otherwise
    extending.run("first")
    path = extending.sides.folder / "shop" / "party.toml"
    whole = path.read_text()
    path.write_text(whole.replace('id = "id"\n', 'id = "id"\nleave_out = ["a"]\n'))
    assert "not that of the job which is extended" in refusal(ManifestError, lambda: extending.run("x", extend="first"))


def test_a_left_join_takes_a_party_that_lacks_rows(extending: Extending) -> None:
    extending.sides.write_parties('runs = 9\njoins = ["left"]', peers="")
    place = extending.sides.folder / "mill" / "table.csv"
    place.write_text("\n".join(place.read_text().splitlines()[:-15]) + "\n")
    few = extending.run("few", mill=False, align='join = "left"')
    more = extending.run("more", extend="few", align='join = "left"')
    assert asked(more) == {"mill"} and more.ids.tolist() == few.ids.tolist()
    rows = checkpoint.read(checkpoint.newest(extending.sides.folder / "more" / "checkpoints"))[0]["owner"]
    assert rows["replies/shop"].equal(few.owner.replies["shop"])
    assert set(PARTIES) == more.owner.replies.keys()
