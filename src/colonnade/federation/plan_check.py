"""The check of a plan before a party signs it: it must follow from the terms, and the operator must allow it.

Settings, networks and messages are worked out of terms, rows and shapes, so nothing that the owner says is taken on
trust but shapes, outputs and task.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from colonnade import models, seal
from colonnade.core import optim
from colonnade.core.option_names import from_stored_names
from colonnade.core.settings import TrainOptions
from colonnade.core.table import Table
from colonnade.data.stand_ins import stand_ins
from colonnade.errors import ManifestError, MessageError, printable
from colonnade.federation.network_rules import check_kind, check_network, sketch
from colonnade.federation.plan_document import plan_document
from colonnade.federation.side_sections import AllowSection
from colonnade.federation.small_rehearsal import rehearse_small, without_owner
from colonnade.federation.terms import first_difference, method_in
from colonnade.federation.terms_forms import check_plan_form
from colonnade.run.make_plan import make_plan
from colonnade.runtime.plan import Plan


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


def check_description_plan(
    plan: Mapping[str, Any], terms: Mapping[str, Any], name: str, rows: int, test: int, allow: AllowSection
) -> None:
    """Refuse a description's plan that is not of this party's rows, or of labels that its owner cannot prove."""
    if "describe" not in plan:
        raise ManifestError(f"a plan to train came to '{name}' under the terms of a description; do not sign it.")
    labels = plan["describe"]
    if (labels["rows"], plan["test"]) != (rows, test):
        raise ManifestError(
            f"the plan has {labels['rows']} rows to describe and {plan['test']} later ones, '{name}' has {rows} and "
            f"{test}; align again."
        )
    if terms["describe"]["proof"] and (labels["bound"], labels["together"]) != (1, 1):
        raise ManifestError(
            f"the plan has labels up to {labels['bound']}, {labels['together']} a row, of which the terms promise a "
            "proof that every row is of one class; do not sign it."
        )
    for what, many, most in (("rows", rows, allow.rows), ("outputs", labels["targets"], allow.outputs)):
        if most is not None and many > most:
            raise ManifestError(f"the plan has {many} {what}, '{name}' allows {most}; change the job or [allow].")


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
        ("rows", int(own.known_rows.sum()), allow.rows),
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
    claimed = proposal["tables"], proposal["outputs"], proposal["test"]
    return plan_document(terms, what, *claimed, schema, proposal.get("split"))


def check_split(plan: Mapping[str, Any], told: str | None, signed: Mapping[str, Any] | None, name: str) -> None:
    """Refuse a plan of other test rows than this party was told, or than those of the plan it signed for this run."""
    if plan.get("split") != told:
        raise ManifestError(f"the plan has other rows to test on than the owner told '{name}'; do not go on.")
    if signed is not None and signed.get("split") != told:
        raise ManifestError(
            f"the owner told '{name}' other rows to test on than when this run began; bring the owner's files back."
        )


def _planned(terms: Mapping[str, Any], proposal: Mapping[str, Any], name: str, own: Table) -> Plan:
    outline = {**proposal, "outputs": min(proposal["outputs"], 2), "names": []}  # a plan is the same with few outputs
    tables, networks = stand_ins(outline), terms["model"]
    if networks is None:
        networks = _usual(proposal, name, own)
    given = {key: value for key, value in terms["train"].items() if key not in ("method", "runtime")}
    given["task"] = proposal["settings"]["task"] if given.get("task") is None else given["task"]
    return make_plan(
        tables,
        method_in(terms),
        TrainOptions(**from_stored_names(given), runtime="federation").filled(),
        model=_built(models.described, networks),
        optimizer=None if terms["optimizer"] is None else _built(optim.described, terms["optimizer"]),
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


def _built(make: Callable[[dict[str, Any]], Any], entries: Any) -> Any:
    if isinstance(entries, list):
        return [_built(make, entry) for entry in entries]
    if entries is None:
        raise MessageError("a plan came with a network or an optimiser that has no name.")
    return make(entries)
