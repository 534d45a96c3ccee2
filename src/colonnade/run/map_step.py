"""A step beside the method's own: a party's network outputs as points in the plane.

Parties serve it to whoever explains a run, in one process and between processes of one organisation. A party of a
federation refuses it, because only steps of the signed method are served there.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from colonnade.core.disclosure import Disclosure
from colonnade.core.method import Mine, Turn, party_step
from colonnade.errors import MessageError

WAYS = ("pca", "tsne")
_SEEDS = 2**32  # scikit-learn takes no larger ones


SHOWS = (
    Disclosure("embedding_map", "up", "columns", "leaks", note="two numbers per row, by which rows look alike or not"),
    Disclosure("embedding_map", "down", "labels", "nothing known", note="which rows and which map are asked for"),
)


class MapOptions(NamedTuple):
    """How the map is drawn: the number of the way in :data:`WAYS`, and the seed of t-SNE."""

    way: Tensor
    seed: Tensor


class Points(NamedTuple):
    """A party's rows as points [rows, 2]; [0, 2] of a party that has no network of its columns."""

    points: Tensor


@party_step
def embedding_map(mine: Mine, turn: Turn, options: MapOptions) -> Points:
    """The outputs of the party's own network in the plane."""
    way, seed = int(options.way), int(options.seed)
    if not 0 <= way < len(WAYS) or seed < 0:
        raise MessageError(f"a map of kind {way} with seed {seed} was asked for; kinds are 0 to {len(WAYS) - 1}.")
    if "net" not in mine.nets:
        return Points(mine.own(torch.zeros(0, 2)))
    outputs = mine.net(mine.inputs(turn)).cpu().double()
    parties = outputs.reshape(-1, *outputs.shape[-2:]).numpy()  # one by one also where parties are stacked
    flat = torch.from_numpy(np.stack([in_the_plane(vectors, WAYS[way], seed) for vectors in parties]))
    return Points(flat.float().reshape(*outputs.shape[:-1], 2))


def in_the_plane(vectors: np.ndarray, by: str, seed: int = 0) -> np.ndarray:
    """Vectors [rows, width] as points [rows, 2].

    >>> in_the_plane(np.eye(5), "pca").shape, in_the_plane(np.ones((5, 1)), "pca").tolist()[0]
    ((5, 2), [0.0, 0.0])
    """
    wide = np.pad(vectors, [(0, 0), (0, max(0, 2 - vectors.shape[1]))])
    if np.ptp(wide, axis=0).max() == 0:
        return np.zeros((len(wide), 2))  # all rows alike: neither method can say anything
    from sklearn.decomposition import PCA  # two seconds, for those who draw maps only
    from sklearn.manifold import TSNE

    if by == "pca":
        return PCA(2, svd_solver="full").fit_transform(wide)  # type: ignore[no-any-return]
    near = min(30.0, (len(wide) - 1) / 3)
    return TSNE(2, perplexity=near, init="pca", random_state=seed % _SEEDS).fit_transform(wide)  # type: ignore[no-any-return]
