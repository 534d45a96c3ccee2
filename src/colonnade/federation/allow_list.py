"""What a party makes sure of before it signs: that its operator allows the terms, and that the plan follows from them.

Nothing that the owner says is taken on trust: who learns what is worked out of the terms, and settings, networks and
messages of the plan are worked out of terms, rows and shapes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from colonnade import models, seal
from colonnade.core import optim
from colonnade.core.settings import TrainOptions
from colonnade.core.table import Table
from colonnade.data.stand_ins import stand_ins
from colonnade.errors import ManifestError, MessageError, printable
from colonnade.federation.network_rules import check_kind, check_network, sketch
from colonnade.federation.plan_document import plan_document
from colonnade.federation.side_sections import AllowSection
from colonnade.federation.small_rehearsal import rehearse_small, without_owner
from colonnade.federation.terms import PROTOCOL, first_difference, keys_in, labels_under, learns, method_in
from colonnade.federation.terms_forms import check_plan_form, check_terms_form
from colonnade.run.plan_checks import make_plan
from colonnade.runtime.plan import Plan
from colonnade.version import __version__


def check_allowed(
    terms: Mapping[str, Any], name: str, allow: AllowSection, owner: bytes, keys: Mapping[str, bytes]
) -> None:
    """Refuse terms that this party's operator did not allow; each refusal names the field."""
    _check_version(terms)
    check_terms_form(terms)
    _check_sides(terms, name, {str(terms["owner"]): owner, **keys})
    kinds = [entry["kind"] for entry in terms["seals"]]
    method, train, how = terms["method"]["name"], terms["train"], terms["align"]
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
    mode = how.get("mode") or "psi"
    if mode not in allow.align:
        raise _not_allowed("align.mode", mode, allow.align, name)
    least, most = how.get("minimum") or 1, how.get("maximum")
    if allow.minimum is not None and least < allow.minimum:
        raise _not_allowed("align.minimum", least, f"at least {allow.minimum}", name)
    if allow.maximum is not None and (most is None or most > allow.maximum):
        raise _not_allowed("align.maximum", most, f"at most {allow.maximum}", name)
    _check_epsilon(terms, name, allow)
    others = len(terms["parties"]) - 2
    if "blind" in kinds and others < allow.mix:
        raise _not_allowed("parties", f"{others} beside us in a blinded sum", f"at least {allow.mix} (mix)", name)
    _check_words(terms, kinds)
    _check_peers(terms, name, allow, keys)


def check_pinned(terms: Mapping[str, Any], name: str, pinned: Mapping[str, Any] | None) -> None:
    """Refuse other terms than the operator has read; a prediction is of a job that was signed so."""
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
    """Everybody once, the owner first and with the key that this party knows, and this party beside it."""
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
    """Refuse what rests on others being there, unless their keys are known: an owner can invent parties."""
    unknown = [entry["name"] for entry in terms["parties"][1:] if entry["name"] not in keys]
    least = max(terms["align"].get("minimum") or 1, allow.minimum or 1)
    if not unknown:
        return
    if any(entry["kind"] == "blind" for entry in terms["seals"]):
        why = "the seal 'blind', and an owner that invents a party can take its part out of every sum"
    elif least > 1 and len(terms["parties"]) > 2:
        why = f"align.minimum {least}, and an owner that invents a party can compare ids without heeding it"
    else:
        return
    raise ManifestError(
        f"the terms have {why}; '{name}' knows no key of {', '.join(map(repr, unknown))[:200]}: write "
        f'{unknown[0]:.40} = "its.pub" in [peers].'
    )


def _check_epsilon(terms: Mapping[str, Any], name: str, allow: AllowSection) -> None:
    if allow.epsilon is None:
        return
    granted = [entry for entry in terms["seals"] if entry["kind"] == "noise"]
    if not granted:
        raise _not_allowed("seals.noise.epsilon", "no noise", f"at most {allow.epsilon:g}", name)
    for field, most in (("epsilon", allow.epsilon), ("delta", allow.delta)):
        if not max(entry[field] for entry in granted) <= most:
            raise _not_allowed(f"seals.noise.{field}", granted[0][field], f"at most {most:g}", name)


def _check_words(terms: Mapping[str, Any], kinds: Sequence[str]) -> None:
    """What the terms say in words must be what their other fields come to."""
    due = {"learns": learns(terms), "labels": labels_under(method_in(terms), kinds)}
    difference = first_difference(due, {key: terms.get(key) for key in due})
    if difference:
        raise ManifestError(f"the terms gloss over what they do, in {difference}; do not sign them.")


def _not_allowed(field: str, value: Any, allowed: Any, name: str) -> ManifestError:
    return ManifestError(f"the terms have {field} {value!r}, and '{name}' allows {allowed}; change the job or [allow].")


# the plan


def check_plan(
    proposal: Mapping[str, Any], terms: Mapping[str, Any], name: str, own: Table, allow: AllowSection
) -> None:
    """Refuse a plan that is not what this party works out of the terms, or more than its operator allows."""
    check_plan_form(proposal)
    _check_sizes(proposal, terms, name, own, allow)
    what, member = _planned(terms, proposal, name, own), _member(proposal, name)
    check_kind(proposal["model"][member], _kind(what.models[member], own), name, allow)
    made = sketch(what.method, what.models[member], what.optimizers[member], own, member, proposal["outputs"])
    due = _worked_out(proposal, terms, what)
    difference = first_difference(due, {**proposal, "schema": without_owner(proposal["schema"], terms["owner"])})
    if difference:
        raise ManifestError(f"the plan does not follow from the terms that were signed, in {difference}; do not go on.")
    check_network(made, proposal, own, allow)


def check_prediction_plan(
    plan: Mapping[str, Any], trained: Mapping[str, Any], name: str, rows: int, allow: AllowSection
) -> None:
    """Refuse a prediction's plan that is not that of the training, but for its terms and its rows."""
    due = {**trained, "terms": plan["terms"], "test": 0, "predict": rows}
    difference = first_difference(due, plan)
    if difference:
        raise ManifestError(f"the plan of the prediction is not that of the training, in {difference}; do not sign it.")
    if allow.rows is not None and rows > allow.rows:
        raise ManifestError(f"the plan has {rows} rows, '{name}' allows {allow.rows}; change the job or [allow].")


def _check_sizes(
    proposal: Mapping[str, Any], terms: Mapping[str, Any], name: str, own: Table, allow: AllowSection
) -> None:
    """What is claimed, before anything is made of it."""
    listed = [side["name"] for side in terms["parties"]]
    if [side[0] for side in proposal["tables"]] != listed:
        raise ManifestError(f"the plan is not of the parties {', '.join(listed)[:200]} in this order; align again.")
    mine = [name, own.rows, list(own.shape)]
    stated = proposal["tables"][listed.index(name)]
    if stated != mine:
        raise ManifestError(f"the plan says {stated[1:]} of the rows of '{name}', which has {mine[1:]}; align again.")
    for side, rows, shape in proposal["tables"]:
        if rows != own.rows or not (shape or side == listed[0]):
            raise ManifestError(f"the plan says {rows} rows of {shape} of '{side}', and '{name}' has {own.rows}.")
    with_columns = sum(bool(shape) for _, _, shape in proposal["tables"])
    for field in ("model", "optimizer"):
        if len(proposal[field]) != with_columns:
            raise ManifestError(f"the plan has {len(proposal[field])} entries in {field} for {with_columns} parties.")
    rounds = proposal["settings"]["rounds"]
    for what, many, most in (
        ("outputs", proposal["outputs"], allow.outputs),
        ("rows", own.rows, allow.rows),
        ("rounds", rounds, allow.rounds),
    ):
        if most is not None and many > most:
            raise ManifestError(
                f"the plan has {many} {what}, and '{name}' allows {most}; change the job or {what} in [allow]."
            )


def _member(proposal: Mapping[str, Any], name: str) -> int:
    return [table[0] for table in proposal["tables"] if table[2]].index(name)


def _kind(model: Any, own: Table) -> str:
    """The kind of a network that may be the usual one for rows of this shape."""
    known = models.describe(models.usual_for(own.shape) if model is models.default_model else model)
    return "one's own" if known is None else str(known["kind"])


def _worked_out(proposal: Mapping[str, Any], terms: Mapping[str, Any], what: Plan) -> dict[str, Any]:
    """The plan as this party makes it: the owner's word counts for shapes, outputs and task alone."""
    schema = rehearse_small(proposal, what)
    return plan_document(terms, what, proposal["tables"], proposal["outputs"], proposal["test"], schema)


def _planned(terms: Mapping[str, Any], proposal: Mapping[str, Any], name: str, own: Table) -> Plan:
    outline = {
        **proposal,
        "outputs": min(proposal["outputs"], 2),
        "names": [],
    }  # no matter how many, to what is planned
    tables, networks = stand_ins(outline), terms["model"]
    if networks is None:
        networks = _usual(proposal, name, own)
    given = {key: value for key, value in terms["train"].items() if key not in ("method", "runtime")}
    given["task"] = proposal["settings"]["task"] if given.get("task") is None else given["task"]
    return make_plan(
        tables,
        method_in(terms),
        TrainOptions(**given, runtime="federation"),
        model=_built(models.make_model, networks, models.default_model),
        optimizer=None if terms["optimizer"] is None else _built(optim.make_optimizer, terms["optimizer"]),
        seal=[seal.make_seal(**entry) for entry in terms["seals"]],
    )


def _usual(proposal: Mapping[str, Any], name: str, own: Table) -> Any:
    """Everybody's usual network: the party's own by its columns, the others' by those that the plan says they have."""
    names = [table[0] for table in proposal["tables"] if table[2]]
    for side, stated in zip(names, proposal["model"], strict=True):
        codes = own.cardinalities if side == name else tuple(stated.get("cardinalities") or ())
        usual = json.loads(json.dumps(models.describe(models.default_for(codes))))
        if stated != usual:
            raise ManifestError(
                f"the plan does not follow from the terms in model: {printable(stated, 80)} of '{side}' is not the "
                f"usual one, {printable(usual, 80)}."
            )
    return proposal["model"]


def _built(make: Any, entries: Any, default: Any = None) -> Any:
    if isinstance(entries, list):
        return [_built(make, entry, default) for entry in entries]
    if entries is None:
        raise MessageError("a plan came with a network or an optimiser that has no name.")
    options = dict(entries)
    kind = options.pop("kind")
    return default if kind == "default" else make(kind, **options)
