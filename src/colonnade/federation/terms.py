"""What all sides sign before anything is sent: the terms of a job, and after the alignment its plan.

Both are plain JSON. The *terms* say who takes part with which key, what is done, under which seals, who learns what.
The *plan* adds what only shows after the alignment: rows, widths, and what every message looks like.
A side signs the SHA-256 of the canonical text; everybody checks that everybody signed the same.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import asdict
from typing import Any

from colonnade import models, seal
from colonnade.core import optim
from colonnade.core.device import LOCAL_OPTIONS
from colonnade.core.disclosure import LABEL_SEALS, declares_labels
from colonnade.core.method import Method
from colonnade.core.option_names import stored_names
from colonnade.description.describe_tables import rules_of
from colonnade.errors import ConfigError, ManifestError
from colonnade.federation.description_rules import BY_PARTY, description_learns, plain_rules
from colonnade.federation.side_sections import LABELS, OwnerFile
from colonnade.federation.terms_forms import check_terms_form
from colonnade.methods import make_method
from colonnade.runtime.disclosure_words import Situation, about_columns, about_labels, sentences
from colonnade.runtime.step_words import in_words, read_singly, replies
from colonnade.signatures import Identity, pack, verify
from colonnade.tables.align.alignment import who_learns
from colonnade.tables.prepare.time_split import TimeSplit
from colonnade.version import __version__

PROTOCOL = "colonnade/federation/2"
LIMIT = 64 << 20  # bytes of one message
_ABSENT = object()
_ALTERNATIVES = (  # figures of docs/benchmarks.md, "One message of boosted trees"
    "such as oneshot with [[seal]] kind = 'random-labels', epsilon = 2 (test AUC 0.7717 on credit default; with true "
    "labels 0.7742), oneshot with learn = 'pca', which sends no label (0.7634), or that seal on this method, which "
    "costs more the smaller its epsilon is"
)
_RESTS_ON = "What each of these promises rests on is in docs/threat_model.md of this version."


def terms_of(job_file: OwnerFile, extends: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The terms that a job file makes; ``extends`` names the job that it goes on from, see ``extended_job``."""
    job = job_file.job
    own = ("folder", *LOCAL_OPTIONS)  # where the owner keeps the run and computes concerns nobody else
    given = {key: value for key, value in asdict(job.train).items() if value is not None and key not in own}
    terms = {
        **_sides(job_file),
        "method": {"name": job.method.name, **asdict(job.method)},
        "train": stored_names(given),
        "model": _described(models, job.model),
        "optimizer": _described(optim, job.optimizer),
        "seals": seal.describe(job.seals),
        "labels": labels_of(job_file),
        "align": asdict(job_file.align),
        "prepare": asdict(job_file.prepare),
        "limits": {"message": LIMIT, "deadline": job_file.federation.deadline},
        **({} if extends is None else {"extends": dict(extends)}),
    }
    return _whole(terms)


def description_terms(job_file: OwnerFile) -> dict[str, Any]:
    """The terms of a description of columns that a job file makes: no method, and rules for every party instead."""
    if job_file.align.join == "left":
        raise ConfigError(
            "join = 'left' in [align] is for training; a description is about the rows that all sides have: leave it "
            "out."
        )
    names, seed, task = [job_file.own.name, *job_file.others], job_file.job.train.seed, job_file.job.train.task
    rules = {"proof": True, **job_file.job.describe.given}
    chosen = {key: rules.pop(key) for key in BY_PARTY if key in rules}
    terms = {
        **_sides(job_file),
        "describe": plain_rules(rules_of(names, chosen, **rules)),
        "train": {"seed": seed} | ({} if task is None else {"task": task}),
        "align": asdict(job_file.align),
        "prepare": asdict(job_file.prepare),
        "limits": {"message": LIMIT, "deadline": job_file.federation.deadline},
    }
    return _whole(terms)


def _sides(job_file: OwnerFile) -> dict[str, Any]:
    keys = {job_file.own.name: job_file.keys.identity.public, **job_file.others}
    return {
        "protocol": PROTOCOL,
        "colonnade": __version__,
        "job": job_file.job.name,
        "owner": job_file.own.name,
        "parties": [{"name": name, "key": base64.b64encode(key).decode()} for name, key in keys.items()],
    }


def _whole(terms: dict[str, Any]) -> dict[str, Any]:
    plain: dict[str, Any] = json.loads(json.dumps(terms))  # as a party reads them, and as they come from a folder
    plain["learns"] = learns(plain)
    check_terms_form(plain)
    return plain


def labels_of(job_file: OwnerFile) -> str:
    """What parties can learn about the labels, if the owner accepts that."""
    labels = labels_under(job_file.job.method, {entry.kind for entry in job_file.job.seals})
    if LABELS.index(labels) > LABELS.index(job_file.federation.labels):
        name = job_file.job.method.name
        raise ManifestError(
            f"{name} sends values from which every party {about_labels(job_file.job.method)}; choose another method or "
            f"a seal that protects labels, {_ALTERNATIVES}, or accept it by labels = '{labels}' in [federation]."
        )
    return labels


def labels_under(method: Method, kinds: Collection[str]) -> str:
    """What parties can tell of the labels: the method's word, or "protected" if a seal makes them noisy.

    Of a method that declares nothing, nobody knows that labels reach parties only by way of the seal.
    """
    known = method.tells_labels != "unsent" and declares_labels(method)
    return "protected" if known and set(LABEL_SEALS) & set(kinds) else method.tells_labels


def method_in(document: Mapping[str, Any]) -> Method:
    """The method of terms, with the options that the job has, or of a plan, with all of them."""
    options = dict(document["method"])
    return make_method(options.pop("name"), **options)


def split_in(terms: Mapping[str, Any]) -> TimeSplit | None:
    """The split by date of the terms, if they have one."""
    split = terms["prepare"].get("split")
    return None if split is None else TimeSplit.of(split)


def learns(terms: Mapping[str, Any]) -> list[str]:
    """Who learns what, in sentences; every side derives them from the other fields, so nobody can hide anything."""
    if "describe" in terms:
        return _description_learns(terms)
    method, owner = method_in(terms), terms["owner"]
    names, kinds = [entry["name"] for entry in terms["parties"]], {entry["kind"] for entry in terms["seals"]}
    blind = "blind" in kinds
    sent, singly = _sent(method, blind=blind), _read_singly(method, owner) if blind else []
    how = terms["align"]
    of_alignment = who_learns(how.get("mode") or "psi", names, how.get("join") or "inner")
    noise = ["Every party adds noise to what it sends, and counts what that spends of its budget."]
    noise = noise if "noise" in kinds else []
    if "predict" in terms:
        scored = f"'{owner}' learns {sent} of the new rows, and their scores."
        return [*of_alignment, scored, *singly, *_of_predictions(method, owner, kinds), *noise, _RESTS_ON]
    split = split_in(terms)
    lines = [*of_alignment, *([] if split is None else [split.learns(owner)])]
    party_sends, owner_sends = method.sends
    once = method.most_rounds == 1
    if party_sends != "nothing":
        rows = "each training row, once, and of each row that is evaluated" if once else "each round's rows"
        lines += [f"'{owner}' learns {sent} of {rows}.", *singly]
    if owner_sends != "nothing":
        rows = "the training rows, once" if once else "each round's rows"
        lines.append(f"Every party learns {owner_sends} of {rows}.")
    return [*lines, *_of_messages(method, owner, kinds), *_stay(terms), *noise, _RESTS_ON]


def _of_messages(method: Method, owner: str, kinds: Collection[str]) -> list[str]:
    """What every message shows, as the method declares it, under these seals; nobody knows the classes yet."""
    return sentences(method, Situation(seals=tuple(sorted(kinds)), owner=f"'{owner}'"))


def _of_predictions(method: Method, owner: str, kinds: Collection[str]) -> list[str]:
    """What a prediction's replies show of new rows."""
    about = Situation(seals=tuple(sorted(kinds)), owner=f"'{owner}'")
    return [] if method.predicts_alone else about_columns(method, about)


def _stay(terms: Mapping[str, Any]) -> list[str]:
    """Of a job that goes on from another: whom the sentences about training rows are not about."""
    stays = terms.get("extends", {}).get("stays", [])
    if not stays:
        return []
    return [
        f"{', '.join(map(repr, stays))} stay as an earlier job left them: they learn nothing of training rows here and "
        "send nothing of them, only what they send of rows that are evaluated."
    ]


def _description_learns(terms: Mapping[str, Any]) -> list[str]:
    names, split = [entry["name"] for entry in terms["parties"]], split_in(terms)
    of_split = [] if split is None else [split.learns(terms["owner"])]
    return [
        *who_learns(terms["align"].get("mode") or "psi", names), *of_split, *description_learns(terms), _RESTS_ON,
    ]  # fmt: skip


def _sent(method: Method, *, blind: bool) -> str:
    """What the owner gets of parties: under Blind the sums that the method declares."""
    if not blind or not method.summed_steps:
        return f"every party's {method.sends[0]}"
    return f"only the sum of all parties' {in_words(replies(method, method.summed_steps).values())}"


def _read_singly(method: Method, owner: str) -> list[str]:
    """One sentence for each step that Blind does not cover."""
    steps = read_singly(method).items()
    return [f"'{owner}' reads every party's {in_words([kind])}, one by one, in step '{step}'." for step, kind in steps]


def outline(terms: Mapping[str, Any]) -> str:
    """The terms in one line, for the log of the side that signs them.

    >>> outline({"parties": [{"name": "bank"}, {"name": "shop"}], "method": {"name": "fdml"}, "labels": "shown",
    ...          "seals": [], "train": {"method": "fdml", "rounds": 5}, "limits": {"deadline": 300}})
    'fdml of bank, shop; rounds 5; no seals; labels shown; deadline 300'
    """
    names = ", ".join(entry["name"] for entry in terms["parties"])
    if "describe" in terms:
        common = "; ".join(f"{key} {value}" for key, value in terms["describe"].items() if key != "parties")
        return f"description of {names}; {common}; deadline {terms['limits']['deadline']}"
    seals = ", ".join(entry["kind"] for entry in terms["seals"])
    parts = (
        f"{terms['method']['name']} of {names}",
        *(f"{key} {value}" for key, value in terms["train"].items() if key != "method"),
        f"seals {seals}" if seals else "no seals",
        f"labels {terms['labels']}",
        *(f"{key} {value}" for key, value in terms["limits"].items()),
    )
    return "; ".join(parts)


def digest(document: Mapping[str, Any]) -> bytes:
    """The SHA-256 of the canonical text of terms or a plan."""
    return hashlib.sha256(json.dumps(document, sort_keys=True, ensure_ascii=True).encode()).digest()


def job_id(terms: Mapping[str, Any]) -> bytes:
    """Sixteen bytes that name the job in every request."""
    return digest(terms)[:16]


def sign(identity: Identity, what: str, document: Mapping[str, Any]) -> bytes:
    """A side's signature of the terms or the plan."""
    return identity.sign(signed_bytes(what, document))


def signed_bytes(what: str, document: Mapping[str, Any]) -> bytes:
    """The bytes that a signature of the terms or the plan covers."""
    return pack(PROTOCOL, what, digest(document))


def check_signatures(
    keys: Mapping[str, bytes], what: str, document: Mapping[str, Any], signatures: Mapping[str, bytes]
) -> None:
    """Refuse to go on unless everybody signed this very document."""
    if signatures.keys() != keys.keys():
        raise ManifestError(f"signatures of {sorted(signatures)} came for the {what}; all of {sorted(keys)} must sign.")
    for name, signature in signatures.items():
        verify(keys[name], signed_bytes(what, document), signature, f"the {what} by '{name}'")


def keys_in(terms: Mapping[str, Any]) -> dict[str, bytes]:
    """Every side's public identity key."""
    return {party["name"]: base64.b64decode(party["key"]) for party in terms["parties"]}


def first_difference(
    known: Any, other: Any, where: str = "", sides: tuple[str, str] = ("here", "at the owner")
) -> str | None:
    """The first field in which two documents differ, with both values.

    >>> first_difference({"train": {"rounds": 5}}, {"train": {"rounds": 6}})
    'train.rounds (5 here, 6 at the owner)'
    """
    if isinstance(known, dict) and isinstance(other, dict):
        for key in sorted(known.keys() | other.keys()):
            at = f"{where}.{key}" if where else key
            difference = first_difference(known.get(key, _ABSENT), other.get(key, _ABSENT), at, sides)
            if difference:
                return difference
        return None
    texts = ["nothing" if value is _ABSENT else json.dumps(value, sort_keys=True) for value in (known, other)]
    if texts[0] != texts[1]:  # of the text, which is what was signed: 1, 1.0 and true are three values there
        return f"{where} ({texts[0][:80]} {sides[0]}, {texts[1][:80]} {sides[1]})"
    return None


def _described(module: Any, builders: Any) -> Any:
    if builders is None:
        return None
    if isinstance(builders, list):
        return [_plain(module.describe(builder)) for builder in builders]
    return _plain(module.describe(builders))


def _plain(entry: dict[str, Any]) -> dict[str, Any]:
    """As JSON has it: tuples are lists."""
    return {key: list(value) if isinstance(value, tuple) else value for key, value in entry.items()}
