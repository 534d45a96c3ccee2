"""``colonnade methods``, ``colonnade data`` and ``colonnade seals``: lists of the available ones."""

from __future__ import annotations

import inspect
import sys
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Column, Table

from colonnade.cli.app import Json, app, out, print_json
from colonnade.errors import unknown

if TYPE_CHECKING:
    from colonnade.core.method import Method
    from colonnade.data import Dataset


@app.command(epilog="Example: colonnade methods vimadmm")
def methods(
    name: Annotated[str | None, typer.Argument(help="One method, to see its options.", show_default=False)] = None,
    json: Json = False,
) -> None:
    """List the methods, or one method with its options and where it comes from."""
    from colonnade.methods import methods as all_methods

    known = all_methods()
    if name is not None and name not in known:
        raise unknown("method", name, known)
    if json:
        print_json(_facts(known[name]) if name else {key: _facts(method) for key, method in known.items()})
    elif name:
        _show_method(known[name])
    else:
        _show_methods(list(known.values()))


@app.command(epilog="Example: colonnade data --json")
def data(json: Json = False) -> None:
    """List the data sets by name: size, licence, and whether they can be loaded here."""
    from colonnade.data import datasets

    if json:
        print_json({name: {**asdict(known), "available": known.available} for name, known in datasets().items()})
        return
    table = Table("name", "train", "test", "shape", "classes", "licence", "here?", box=None, padding=(0, 1, 0, 0))
    for dataset in datasets().values():
        table.add_row(*_row(dataset))
    out.print(table)
    out.print("Train and test are rows; COLONNADE_DATA names the folder with the files.", style="dim")


@app.command(epilog="Example: colonnade seals --json")
def seals(json: Json = False) -> None:
    """List the seals that a message, or the labels, can be given on their way, with their options."""
    from colonnade.seal import SEALS

    options = {kind: {field.name: field.default for field in fields(seal)} for kind, seal in SEALS.items()}
    if json:
        print_json(
            {kind: {"summary": _first_line(SEALS[kind]), "options": defaults} for kind, defaults in options.items()}
        )
        return
    table = Table("kind", "what it does", "options", box=None, padding=(0, 1, 0, 0))
    for kind, defaults in options.items():
        table.add_row(kind, _first_line(SEALS[kind]), ", ".join(f"{name}={value}" for name, value in defaults.items()))
    out.print(table)
    typer.echo('In a job file: [[seal]], then kind = "bits" and options, one section per seal.')


def _first_line(thing: object) -> str:
    return inspect.cleandoc(thing.__doc__ or "").splitlines()[0]


def _row(dataset: Dataset) -> list[str]:
    rows = [f"{count:,}" for count in dataset.rows]
    shape = "x".join(map(str, dataset.shape))
    return [dataset.name, *rows, shape, str(dataset.classes), dataset.licence, "yes" if dataset.available else "no"]


def _facts(method: type[Method]) -> dict[str, Any]:
    from colonnade.core.disclosure import worst, worst_label_word

    return {
        "name": method.name,
        "summary": method.summary,
        "party_sends": method.party_sends,
        "owner_sends": method.owner_sends,
        "labels": worst_label_word(method),
        "discloses": None if (told := worst(method).disclosures) is None else [asdict(one) for one in told],
        "can_be_blinded": method.sums,
        "summed_steps": method.summed_steps,
        "needs_owner_columns": method.needs_owner_columns,
        "tasks": method.tasks,
        "options": {field.name: field.default for field in fields(method)},
    }


def _blinding(method: type[Method]) -> str:
    from colonnade.runtime.step_words import in_words, read_singly, replies

    summed = in_words(replies(method, method.summed_steps).values())
    singly = "".join(f"; it reads every party's {in_words([kind])} one by one" for kind in read_singly(method).values())
    return f"With Blind the owner reads only the sum of all parties' {summed}{singly}."


def _show_methods(known: list[type[Method]]) -> None:
    from colonnade.core.disclosure import SECRETS
    from colonnade.runtime.disclosure_words import in_a_cell

    head = "summary", "a party sends", "the owner sends", "shows of labels", "of columns", "can be blinded?"
    table = Table(Column("name", no_wrap=True), *head, box=None)
    for method in known:
        blind = {"always": "yes", "never": "no"}.get(method.sums, method.sums)
        sends = method.party_sends, method.owner_sends
        table.add_row(method.name, method.summary, *sends, *(in_a_cell(method, secret) for secret in SECRETS), blind)
    out.print(table)


def _usual(method: type[Method], option: str, default: object) -> str:
    """The default, or what follows from the rows if there is none."""
    if option == "optimizer" and default is None:
        return "adam on tables, sgd for pictures or with an lr"
    if default is None and option in method.with_sgd:
        return f"{method.with_sgd[option]} with sgd, {method.with_adam[option]} with adam"
    return str(default)


def _show_method(method: type[Method]) -> None:
    from colonnade.core.disclosure import worst
    from colonnade.runtime.disclosure_words import Situation, sentences

    out.print(f"{method.name}: {method.summary}", style="bold", highlight=False)
    out.print(f"A party sends {method.party_sends}; the owner sends {method.owner_sends}.", highlight=False)
    out.print(f"It learns {', '.join(method.tasks)}.", highlight=False)
    for said in sentences(worst(method), Situation()):
        out.print(said, style="yellow", highlight=False)
    if method.summed_steps:
        out.print(_blinding(method), highlight=False)
    table = Table("option", "default", box=None)
    for field in fields(method):
        table.add_row(field.name, _usual(method, field.name, field.default))
    out.print(table)
    typer.echo("\n" + inspect.cleandoc(sys.modules[method.__module__].__doc__ or ""))
