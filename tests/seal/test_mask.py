"""The keystream is AES-256-CTR, uniform, fast, and the only randomness beside the operating system's."""

from __future__ import annotations

import ast
import os
from pathlib import Path

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from colonnade.errors import SealError
from colonnade.seal import ring as ring_module
from colonnade.seal.masks import keystream, shift
from colonnade.seal.ring import Ring

FILES = ["key_agreement", "masks", "ring", "shamir", "secure_sum", "recover", "../signatures"]
ALLOWED = {"numpy", "cryptography", "colonnade.errors", "colonnade.seal", "colonnade.signatures"}
STANDARD = {
    "__future__",
    "collections.abc",
    "dataclasses",
    "hashlib",
    "hmac",
    "itertools",
    "math",
    "os",
    "secrets",
    "typing",
}


@pytest.mark.parametrize("count", [0, 1, 5, 16384, 16385, 100_003])
@pytest.mark.parametrize("bits", [1, 8, 11, 32, 64])
def test_the_stream_is_the_cipher(count: int, bits: int) -> None:
    ring, key = Ring(bits), os.urandom(32)
    size = count * ring.dtype.itemsize
    raw = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor().update(bytes(size))
    expected = np.frombuffer(raw, ring.dtype.newbyteorder("<")) & ring.dtype.type(ring.modulus - 1)
    stream = keystream(key, count, ring)
    assert np.array_equal(stream, expected)
    message = np.full(count, ring.modulus - 1, ring.dtype)
    for plus in (True, False):
        shift(message, key, ring, plus=plus)
        assert np.array_equal(
            ring.reduce(message.copy()), ring.reduce((stream if plus else 0 * stream) - ring.dtype.type(1))
        )


def test_every_element_of_a_small_ring_comes_equally_often() -> None:
    from scipy.stats import chisquare

    for bits in (1, 3, 5, 9, 12):
        counts = np.bincount(keystream(os.urandom(32), 200_000, Ring(bits)), minlength=1 << bits)
        assert chisquare(counts).pvalue > 1e-9


@pytest.mark.parametrize("length", [0, 16, 31, 33])
def test_a_key_of_another_length(length: int) -> None:
    with pytest.raises(SealError, match="must be 32"):
        keystream(bytes(length), 1, Ring(8))


@pytest.mark.parametrize("name", FILES)
def test_no_other_source_of_chance_is_imported(name: str) -> None:
    """Masks from numpy, torch or ``random`` can be computed back; these files must not even reach for them."""
    tree = ast.parse((Path(ring_module.__file__).parent / f"{name}.py").read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            modules = [node.module or ""]
        else:
            assert not (isinstance(node, ast.Attribute) and node.attr in {"random", "rand", "default_rng"})
            assert not (isinstance(node, ast.Name) and node.id in {"random", "__import__", "eval", "exec"})
            continue
        for module in modules:
            inside = any(module == allowed or module.startswith(allowed + ".") for allowed in ALLOWED)
            assert (inside or module in STANDARD) and "random" not in module, f"{name} imports {module}"
