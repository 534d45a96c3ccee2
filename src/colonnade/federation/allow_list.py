"""The check of terms before a party signs them: its operator must allow them.

Nothing that the owner says is taken on trust: who learns what is worked out of the other fields of the terms.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from colonnade.errors import ManifestError, printable
from colonnade.federation.description_rules import rules_in
from colonnade.federation.side_sections import AllowDescribeSection, AllowSection
from colonnade.federation.terms import PROTOCOL, first_difference, keys_in, labels_under, learns, method_in
from colonnade.federation.terms_forms import check_terms_form
from colonnade.learners import make_learner
from colonnade.run.absence import ALONE
from colonnade.version import __version__


def check_allowed(
    terms: Mapping[str, Any], name: str, allow: AllowSection, owner: bytes, keys: Mapping[str, bytes]
) -> None:
    """Refuse terms that this party's operator did not allow; each refusal names the field."""
    _check_version(terms)
    check_terms_form(terms)
    _check_sides(terms, name, {str(terms["owner"]): owner, **keys})
    _check_align(terms["align"], name, allow)
    if "describe" not in terms:
        _check_training(terms, name, allow)
    _check_words(terms)
    _check_peers(terms, name, allow, keys)


def _check_training(terms: Mapping[str, Any], name: str, allow: AllowSection) -> None:
    kinds = [entry["kind"] for entry in terms["seals"]]
    method, train = terms["method"]["name"], terms["train"]
    if allow.methods is not None and method not in allow.methods:
        raise _not_allowed("method.name", method, allow.methods, name)
    for kind in kinds:
        if allow.seals is not None and kind not in allow.seals:
            raise _not_allowed("seals", kind, allow.seals, name)
    for kind in allow.needs:
        if kind not in kinds:
            raise ManifestError(f"the terms have no seal '{kind}', which '{name}' needs; add it to the job.")
    if allow.rounds is not None and train.get("rounds") is not None and train["rounds"] > allow.rounds:
        raise _not_allowed("train.rounds", train["rounds"], f"at most {allow.rounds}", name)
    _check_left_join(terms, kinds)
    _check_learner(terms, name, allow)
    _check_epsilon(terms, name, allow)
    others = len(terms["parties"]) - 2
    if "blind" in kinds and others < allow.mix:
        raise _not_allowed("parties", f"{others} beside us in a blinded sum", f"at least {allow.mix} (mix)", name)


def _check_align(how: Mapping[str, Any], name: str, allow: AllowSection) -> None:
    mode = how.get("mode") or "psi"
    if mode not in allow.align:
        raise _not_allowed("align.mode", mode, allow.align, name)
    join = how.get("join") or "inner"
    if join not in allow.joins:
        raise _not_allowed("align.join", join, allow.joins, name)
    least, most = how.get("minimum") or 1, how.get("maximum")
    if allow.minimum is not None and least < allow.minimum:
        raise _not_allowed("align.minimum", least, f"at least {allow.minimum}", name)
    if allow.maximum is not None and (most is None or most > allow.maximum):
        raise _not_allowed("align.maximum", most, f"at most {allow.maximum}", name)


def check_described(terms: Mapping[str, Any], name: str, allow: AllowDescribeSection | None) -> None:
    """Refuse a description that this party's operator did not allow; each refusal names the field."""
    if allow is None:
        raise ManifestError(f"'{name}' allows no description; write columns = [...] in [describe] of its party file.")
    rules, listed = rules_in(terms), [entry["name"] for entry in terms["parties"]]
    if list(rules) != listed:
        raise ManifestError(
            f"the terms have rules of {', '.join(rules)[:200]} in describe.parties; {listed} take part."
        )
    own, where = rules[name], f"describe.parties.{name}"
    if own.minimum < allow.minimum:
        raise _not_allowed(f"{where}.minimum", own.minimum, f"at least {allow.minimum}", name, "describe")
    if allow.names == "numbered" != own.names:
        raise _not_allowed(f"{where}.names", own.names, "numbered", name, "describe")
    if allow.epsilon is not None and (own.epsilon is None or own.epsilon > allow.epsilon):
        raise _not_allowed(f"{where}.epsilon", own.epsilon, f"at most {allow.epsilon:g}", name, "describe")
    if allow.epsilon is not None and own.delta > allow.delta:
        raise _not_allowed("describe.delta", own.delta, f"at most {allow.delta:g}", name, "describe")
    if allow.proof and not own.proof:
        raise _not_allowed("describe.proof", own.proof, "an owner that proves what it encrypts", name, "describe")


def check_pinned(terms: Mapping[str, Any], name: str, pinned: Mapping[str, Any] | None) -> None:
    """Refuse terms other than those that the operator has read; a prediction belongs to such a job."""
    difference = None if pinned is None or "predict" in terms else first_difference(pinned, terms)
    if difference:
        raise ManifestError(
            f"the terms are not those that [allow] of '{name}' names, in {difference}; undo that, or read the new "
            "ones and put them there."
        )


def _check_version(terms: Mapping[str, Any]) -> None:
    for field, ours in (("protocol", PROTOCOL), ("colonnade", __version__)):
        if terms.get(field) != ours:
            raise ManifestError(
                f"the terms have {field} {printable(terms.get(field), 40)!r} and this side {ours!r}; install the same "
                "version."
            )


def _check_sides(terms: Mapping[str, Any], name: str, keys: Mapping[str, bytes]) -> None:
    """Check that every side is named once, the owner first with the key that this party knows, and this party too."""
    stated, listed = keys_in(terms), [party["name"] for party in terms["parties"]]
    if name not in stated:
        raise ManifestError(f"'{name}' is not among the parties of the terms, {', '.join(stated)}; ask the owner.")
    if listed[0] != terms["owner"] or terms["owner"] == name:
        raise ManifestError(
            f"the terms have the owner '{terms['owner']}' and the parties {', '.join(listed)}; it is first."
        )
    if not len(listed) == len(stated) == len(set(stated.values())):
        raise ManifestError("the terms have a party or a key twice in parties; each side needs its own.")
    for side, key in keys.items():
        if side not in stated:
            raise ManifestError(f"the terms have no party '{side}', which [peers] of '{name}' names; ask the owner.")
        if stated[side] != key:
            raise ManifestError(f"the terms have another key of '{side}' than '{name}' knows; ask '{side}' for it.")


def _check_peers(terms: Mapping[str, Any], name: str, allow: AllowSection, keys: Mapping[str, bytes]) -> None:
    """Refuse terms whose promises need other parties, unless their keys are known: an owner can invent parties."""
    unknown = [entry["name"] for entry in terms["parties"][1:] if entry["name"] not in keys]
    least = max(terms["align"].get("minimum") or 1, allow.minimum or 1)
    if not unknown:
        return
    if any(entry["kind"] == "blind" for entry in terms.get("seals", ())):
        why = "the seal 'blind', and an owner that invents a party can take its part out of every sum"
    elif least > 1 and len(terms["parties"]) > 2 and terms["align"].get("join") != "left":  # there we compare ourselves
        why = f"align.minimum {least}, and an owner that invents a party can compare ids without heeding it"
    else:
        return
    raise ManifestError(
        f"the terms have {why}; '{name}' knows no key of {', '.join(map(repr, unknown))[:200]}: write "
        f'{unknown[0]:.40} = "its.pub" in [peers].'
    )


def _check_left_join(terms: Mapping[str, Any], kinds: Sequence[str]) -> None:
    """Refuse a left join of a method that needs all rows of everybody, and one whose sums may be of one party."""
    if terms["align"].get("join") != "left":
        return
    method = method_in(terms)
    if not method.partial_rows:
        raise ManifestError(
            f"the terms have align.join 'left', and {method.name} needs every row of every party; do not sign them."
        )
    if "blind" in kinds:
        raise ManifestError(f"the terms have align.join 'left' and the seal 'blind', but {ALONE}; do not sign them.")


def _check_learner(terms: Mapping[str, Any], name: str, allow: AllowSection) -> None:
    """Refuse a learner that this party is not to fit, whatever the method."""
    text = terms["method"].get("learner")
    if allow.learners is not None and isinstance(text, str) and make_learner(text).kind not in allow.learners:
        raise _not_allowed("method.learner", text, allow.learners, name)


def _check_epsilon(terms: Mapping[str, Any], name: str, allow: AllowSection) -> None:
    if allow.epsilon is None:
        return
    granted = [entry for entry in terms["seals"] if entry["kind"] == "noise"]
    if not granted:
        raise _not_allowed("seals.noise.epsilon", "no noise", f"at most {allow.epsilon:g}", name)
    for field, most in (("epsilon", allow.epsilon), ("delta", allow.delta)):
        if not max(entry[field] for entry in granted) <= most:
            raise _not_allowed(f"seals.noise.{field}", granted[0][field], f"at most {most:g}", name)


def _check_words(terms: Mapping[str, Any]) -> None:
    """Check that the sentences in the terms follow from their other fields."""
    due: dict[str, Any] = {"learns": learns(terms)}
    if "describe" not in terms:
        due["labels"] = labels_under(method_in(terms), [entry["kind"] for entry in terms["seals"]])
    difference = first_difference(due, {key: terms.get(key) for key in due})
    if difference:
        raise ManifestError(f"the terms gloss over what they do, in {difference}; do not sign them.")


def _not_allowed(field: str, value: Any, allowed: Any, name: str, section: str = "allow") -> ManifestError:
    return ManifestError(
        f"the terms have {field} {value!r}, and '{name}' allows {allowed}; change the job or [{section}]."
    )
