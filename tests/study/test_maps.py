"""Maps of embeddings: every method, both kinds, nothing but two numbers per row travels."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.decomposition import PCA
from test_explain import METHODS, federation, train

import colonnade as cn
from colonnade.core.method import Method
from colonnade.errors import ConfigError, MessageError, SealError, TableError
from colonnade.run.map_step import MapOptions, embedding_map, in_the_plane


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_every_method_has_a_map(method: Method) -> None:
    owner = "first" if method.needs_owner_columns else "labels"
    tables = federation(1, owner)
    maps = [cn.embedding_map(train(method, runtime=name, rounds=3), tables, rows=40) for name in ("loop", "fused")]
    expected = ["owner"] if method.name == "apfed" else [t.name for t in tables if t.columns is not None]
    expected = [] if method.whole_rounds else expected  # parties that fit learners have no network
    for found in maps:
        assert list(found.points) == expected, "a passive party that only reconstructs has no network of its columns"
        assert all(points.shape == (40, 2) and bool(torch.isfinite(points).all()) for points in found.points.values())
        assert found.labels.shape == (40,) and found.by == "pca"


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_parties_behind_requests_draw_the_same_map(method: Method) -> None:
    tables = federation(1, "first" if method.needs_owner_columns else "labels")
    runs = [train(method, runtime=name, rounds=3) for name in ("loop", "bytes", "apart")]
    loop, wired, apart = (cn.embedding_map(run, tables, rows=40) for run in runs)
    for found in (wired, apart):
        assert bool(found.points) != method.whole_rounds and found.points.keys() == loop.points.keys()
        assert all(torch.equal(found.points[name], points) for name, points in loop.points.items())
    assert runs[0].ledger.to_json() == runs[1].ledger.to_json() == runs[2].ledger.to_json()


def test_several_owners_have_a_map_behind_requests() -> None:
    tables = cn.share(federation(0), 2)
    runs = [train(cn.MultiVFL(every=2), tables=tables, runtime=name, rounds=3) for name in ("loop", "apart")]
    loop, apart = (cn.embedding_map(run, federation(1), rows=40) for run in runs)
    assert loop.points and all(torch.equal(apart.points[name], points) for name, points in loop.points.items())


def test_parties_of_a_federation_draw_no_map() -> None:
    """They serve the steps of the method that was signed, and nothing else."""
    run = train(runtime="apart", rounds=1)
    for party in run.parties.backend.transport.parties.values():
        party.spec = replace(party.spec, extra_steps={})
    with pytest.raises(ConfigError, match="'party 1' refused: unknown step of vimadmm at 'party 1' 'embedding_map'"):
        cn.embedding_map(run, federation(1))
    run.settings = replace(run.settings, runtime="federation")
    with pytest.raises(ConfigError, match="parties of a federation serve only the steps that all sides signed"):
        cn.embedding_map(run, federation(1))


@pytest.mark.parametrize("seal", [cn.Blind(), cn.Noise(clip=1.0, epsilon=50.0)], ids=lambda seal: seal.kind)
def test_a_method_whose_owner_predicts_alone_has_no_map_of_sealed_parties(seal: Any) -> None:
    run = train(cn.APFed(loss="contrastive"), seal=seal, rounds=1)
    sent = run.ledger.total
    with pytest.raises(SealError, match="was trained with"):
        cn.embedding_map(run, federation(1, "first"))
    assert run.ledger.total == sent


@pytest.mark.parametrize("wanted", [(-1, 0), (2, 0), (0, -1)])
def test_a_map_that_nobody_draws_is_refused(wanted: tuple[int, int]) -> None:
    options = MapOptions(*map(torch.tensor, wanted))
    with pytest.raises(MessageError, match="a map of kind"):
        train(rounds=1).ask(embedding_map, federation(1), all=options)


def test_it_is_the_pca_of_the_embeddings_and_repeats() -> None:
    run, tables = train(runtime="loop"), federation(1)
    found, again, other = (cn.embedding_map(run, tables, rows=50, seed=seed) for seed in (0, 0, 1))
    assert torch.equal(found.points["party 1"], again.points["party 1"])
    assert not torch.equal(found.labels, other.labels)
    with torch.no_grad():
        h = run.parties.backend.grouping.groups[1].net(tables[2].columns).numpy()
    every = cn.embedding_map(run, tables, rows=10**6).points["party 2"]
    spread = PCA(2).fit(h).explained_variance_
    np.testing.assert_allclose(np.sort(every.var(0, correction=1).numpy())[::-1], spread, rtol=1e-3)


def test_two_numbers_per_row_travel() -> None:
    run = train(rounds=2)
    cn.embedding_map(run, federation(1), rows=100)
    sent = run.ledger.bytes_for("explain")
    assert 3 * 100 * 2 * 4 < sent < 3 * (100 * 2 * 4 + 200)


def test_tsne_keeps_classes_of_a_good_party_together() -> None:
    found = cn.embedding_map(train(), federation(1), by="tsne", rows=100)
    assert nearest_agree(found, "party 2") > 0.9 > nearest_agree(found, "party 3")


def nearest_agree(found: cn.EmbeddingMap, party: str) -> float:
    """How often a point's nearest neighbour is of its class."""
    apart = torch.cdist(found.points[party], found.points[party]).fill_diagonal_(torch.inf)
    return float((found.labels[apart.argmin(1)] == found.labels).float().mean())


def test_vectors_that_have_no_plane() -> None:
    for by in ("pca", "tsne"):
        assert in_the_plane(np.ones((6, 3)), by).tolist() == [[0.0, 0.0]] * 6
        assert in_the_plane(np.arange(6.0)[:, None], by).shape == (6, 2)


def test_bad_input_is_told() -> None:
    run = train(rounds=1)
    with pytest.raises(ConfigError, match="unknown kind of map 'umap'"):
        cn.embedding_map(run, federation(), by="umap")
    with pytest.raises(ConfigError, match="rows=3 is out of range; a map needs at least 5"):
        cn.embedding_map(run, federation(), rows=3)
    with pytest.raises(TableError, match="row shapes"):
        cn.embedding_map(
            run, [t if t.columns is None else cn.Table(t.ids, t.columns[:, :2], name=t.name) for t in federation()]
        )
