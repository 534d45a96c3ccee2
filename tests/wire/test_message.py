"""The wire form: exact, canonical, and strict towards whatever the network brings."""

from __future__ import annotations

import ast
import keyword
import math
import re
import struct
from collections import namedtuple
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import colonnade
from colonnade.errors import MessageError, TrainingError
from colonnade.wire import message as wire
from colonnade.wire.message import Envelope, Size, decode, encode, sendable, size

DTYPES = [
    torch.float32,
    torch.float64,
    torch.float16,
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
]
AT = Envelope("embed", "party 1", 7)


class One(NamedTuple):
    a: Tensor


class Two(NamedTuple):
    a: Tensor
    b: Tensor


def assert_same(came: Any, expected: Any) -> None:
    assert type(came) is type(expected)
    for got, want in zip(came, expected, strict=True):
        assert (got.dtype, got.shape) == (want.dtype, want.shape)
        assert torch.equal(got, want)


def craft(
    shape: tuple[int, ...] = (1,),
    payload: bytes = b"\0" * 4,
    *,
    code: int = 0,
    field: bytes = b"a",
    tensors: int = 1,
    header: bytes | None = None,
    magic: bytes = b"CLND",
    version: int = 1,
) -> bytes:
    """A frame written by hand, so that it can lie."""
    if header is None:
        header = struct.pack("<I", 7) + b"\5embed\7party 1"
        header += bytes([len(field)]) + field + bytes([code, len(shape)]) + struct.pack(f"<{len(shape)}I", *shape)
    body = magic + struct.pack("<BBH", version, tensors, len(header)) + header + payload
    return struct.pack("<I", len(body)) + body


# What is sent arrives


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (5,), (2, 3), (1, 2, 1, 2, 1, 2, 1, 2)], ids=str)
def test_every_dtype_and_shape_arrives_as_it_was(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    sent = One((torch.arange(math.prod(shape)) - 2).to(dtype).reshape(shape))
    came, envelope = decode(encode(sent, AT), One)
    assert_same(came, sent)
    assert envelope == AT


def test_extreme_values_arrive_bit_for_bit() -> None:
    numbers = [torch.finfo(torch.float32).max, torch.finfo(torch.float32).min, 1e-45, -0.0]
    sent = Two(torch.tensor(numbers), torch.tensor([torch.iinfo(torch.int64).min, torch.iinfo(torch.int64).max]))
    came, _ = decode(encode(sent, AT), Two)
    assert_same(came, sent)
    assert math.copysign(1, came.a[3]) == -1


@pytest.mark.parametrize(
    "tensor",
    [
        torch.arange(6.0).reshape(2, 3).T,
        torch.arange(10.0)[::3],
        torch.tensor([1.0, 2.0]).expand(3, 2),
        torch.arange(6.0).flip(0),
        torch.ones(2, requires_grad=True) * 2,
    ],
    ids=["transposed", "strided", "expanded", "flipped", "with gradient"],
)
def test_views_arrive_as_plain_tensors(tensor: Tensor) -> None:
    came, _ = decode(encode(One(tensor), AT), One)
    assert_same(came, One(tensor.detach()))
    assert came.a.is_contiguous() and not came.a.requires_grad


def test_what_arrives_may_be_written_and_belongs_to_nobody_else() -> None:
    frame = encode(One(torch.tensor([1.0, 2.0])), AT)
    first, second = decode(frame, One)[0], decode(memoryview(frame), One)[0]
    first.a.add_(10)
    assert second.a.tolist() == [1.0, 2.0]
    assert decode(frame, One)[0].a.tolist() == [1.0, 2.0]


def test_the_bytes_are_those_that_the_docstring_draws() -> None:
    frame = encode(Two(torch.tensor([1.0]), torch.tensor(5, dtype=torch.uint8)), Envelope("go", "me", 258))
    assert frame == bytes.fromhex(
        "23000000"  # 35 bytes follow
        "434c4e44 01 02 1600"  # CLND, version 1, two tensors, 22 bytes of header
        "02010000 02 676f 02 6d65"  # round 258, "go", "me"
        "01 61 00 01 01000000"  # "a", float32, one dimension of 1
        "01 62 03 00"  # "b", uint8, no dimensions
        "0000803f 05"
    )


def test_a_message_without_tensors() -> None:
    empty = namedtuple("empty", [])()
    frame = encode(empty, AT)
    assert decode(frame, type(empty)) == (empty, AT)
    assert size(empty, AT) == Size(0, len(frame))


# The size is exact


names = st.from_regex(r"[a-z][a-z0-9]{0,20}", fullmatch=True).filter(lambda text: not keyword.iskeyword(text))
printable = st.text(st.characters(min_codepoint=32, max_codepoint=126), min_size=1, max_size=64)


@st.composite
def messages(draw: st.DrawFn) -> Any:
    fields = draw(st.lists(names, max_size=4, unique=True))
    tensors = []
    for _ in fields:
        shape = draw(st.lists(st.integers(0, 3), max_size=8))
        values = torch.arange(math.prod(shape)) % 100
        tensors.append(values.to(draw(st.sampled_from(DTYPES))).reshape(shape))
    return namedtuple("message", fields)(*tensors)


@settings(deadline=None)
@given(messages(), printable, printable, st.integers(0, 2**32 - 1))
def test_size_is_the_length_of_the_frame_and_nothing_is_lost(message: Any, step: str, sender: str, number: int) -> None:
    envelope = Envelope(step, sender, number)
    frame = encode(message, envelope)
    counted = size(message, envelope)
    assert counted.total == counted.payload + counted.overhead == len(frame)
    assert counted.payload == sum(tensor.numel() * tensor.element_size() for tensor in message)
    came, at = decode(frame, type(message))
    assert_same(came, message)
    assert at == envelope


def test_size_by_hand() -> None:
    # 12 prefix + 4 round + (1 + 5) step + (1 + 7) sender + (1 + 1) field name + 1 dtype + 1 dimensions + 2 * 4
    assert size(One(torch.zeros(3, 2, dtype=torch.float16)), AT) == Size(payload=12, overhead=42)


# What cannot travel is refused before it is sent


@pytest.mark.parametrize("name", ["", "é", "a\n", "x" * 65])
def test_names_that_cannot_travel(name: str) -> None:
    for envelope in (Envelope(name, "party", 0), Envelope("step", name, 0)):
        with pytest.raises(MessageError, match="cannot travel"):
            encode(One(torch.zeros(1)), envelope)


@pytest.mark.parametrize("dtype", [torch.bool, torch.bfloat16, torch.complex64], ids=str)
def test_dtypes_without_wire_form(dtype: torch.dtype) -> None:
    with pytest.raises(MessageError, match="no wire form"):
        encode(One(torch.zeros(2, dtype=dtype)), AT)


def test_too_many_tensors_and_too_long_a_header() -> None:
    many = namedtuple("many", [f"f{k}" for k in range(33)])
    with pytest.raises(MessageError, match="33 tensors"):
        encode(many(*[torch.zeros(1)] * 33), AT)
    wide = namedtuple("wide", [f"f{k}".ljust(64, "x") for k in range(32)])
    assert len(encode(wide(*[torch.zeros((1,) * 8)] * 32), AT)) < 4096  # the largest header there can be


def test_what_decode_would_refuse_is_not_sent() -> None:
    with pytest.raises(MessageError):
        encode(One(torch.zeros((1,) * 9)), AT)


@pytest.mark.parametrize("number", [-1, 2**32])
def test_rounds_that_do_not_fit(number: int) -> None:
    with pytest.raises(MessageError):
        encode(One(torch.zeros(1)), Envelope("step", "party", number))


def test_encode_and_decode_have_the_same_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = encode(One(torch.zeros(8)), AT)
    monkeypatch.setattr(wire, "MAX_FRAME", len(frame) - 1)
    with pytest.raises(MessageError):
        encode(One(torch.zeros(8)), AT)


# decode trusts nothing


def test_a_crafted_frame_is_what_encode_writes() -> None:
    assert craft() == encode(One(torch.zeros(1)), AT)  # else the lies below prove nothing


def test_truncated_anywhere() -> None:
    frame = encode(Two(torch.arange(3.0), torch.tensor(1)), AT)
    for end in range(len(frame)):
        with pytest.raises(MessageError):
            decode(frame[:end], Two)
        short = struct.pack("<I", max(end - 4, 0)) + frame[4:end]  # and when the length is made to fit
        with pytest.raises(MessageError):
            decode(short, Two)


def test_a_frame_with_any_byte_changed_is_refused_or_a_frame_of_its_own() -> None:
    """What decodes is canonical: it encodes to the very bytes that came, so no byte is ignored."""
    frame = bytearray(encode(Two(torch.tensor([1.5, -2.0]), torch.zeros(0, 2, dtype=torch.int16)), AT))
    accepted = 0
    for at in range(len(frame)):
        for value in range(256):
            changed = frame[:at] + bytes([value]) + frame[at + 1 :]
            try:
                came, envelope = decode(bytes(changed), Two)
            except MessageError:
                continue
            assert encode(came, envelope) == changed
            assert not_finite(came) is None
            accepted += 1
    assert accepted > len(frame)  # names, round and payload may differ


@pytest.mark.parametrize(
    ("frame", "why"),
    [
        (b"", "0 bytes came"),
        (craft(magic=b"GIF8"), "GIF8"),
        (craft(version=2), "version 2"),
        (craft() + b"\0", "announces 42 bytes but has 43"),
        (craft()[:-1], "announces 42 bytes but has 41"),
        (craft(tensors=33), "33 tensors"),
        (craft(header=b"\0" * 4097), "4097 header bytes"),
        (craft(tensors=0), "header has 8 bytes too many"),
        (craft(tensors=2), "middle of a field"),
        (craft(code=8), "dtype code 8"),
        (craft(code=255), "dtype code 255"),
        (craft((1,) * 9), "9 dimensions"),
        (craft((2,)), "account for 8 bytes but the payload has 4"),
        (craft((0,)), "account for 0 bytes but the payload has 4"),
        (craft((2**32 - 1,) * 8), "beyond what a frame may hold"),
        (craft((5, 5581, 8681, 49477, 384773)), "beyond what a frame may hold"),  # 2**64 + 4 bytes
        (craft(field=b"b"), r"\('b',\) came where One\('a',\) was expected"),
        (craft(field=b"\xff"), "printable"),
        (craft(field=b"\n"), "printable"),
        (craft(field=b""), "1 to 64"),
        (craft(field=b"x" * 65), "1 to 64"),
    ],
)
def test_lies_are_refused(frame: bytes, why: str) -> None:
    with pytest.raises(MessageError, match=why):
        decode(frame, One)


@pytest.mark.parametrize("shape", [(0, 2**32 - 1), (0, 2**32 - 1, 2**32 - 1), (2**31, 0, 2**31)], ids=str)
def test_an_empty_tensor_cannot_hide_giant_dimensions(shape: tuple[int, ...]) -> None:
    with pytest.raises(MessageError, match="beyond what a frame may hold"):
        decode(craft(shape, b""), One)


def test_giant_shapes_are_refused_before_anything_is_allocated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "empty", lambda *_, **__: pytest.fail("allocated"))
    monkeypatch.setattr(torch, "frombuffer", lambda *_, **__: pytest.fail("allocated"))
    for dimensions in range(1, 9):
        with pytest.raises(MessageError):
            decode(craft((2**32 - 1,) * dimensions), One)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64], ids=str)
def test_values_that_are_not_finite(value: float, dtype: torch.dtype) -> None:
    frame = encode(Two(torch.zeros(1), torch.tensor([0.0, value], dtype=dtype)), AT)
    with pytest.raises(MessageError, match="'b' holds values that are not finite"):
        decode(frame, Two)


def test_the_fields_must_be_those_of_the_kind() -> None:
    frame = encode(Two(torch.zeros(1), torch.zeros(1)), AT)
    swapped = namedtuple("swapped", ["b", "a"])
    for kind in (One, swapped):
        with pytest.raises(MessageError, match="was expected"):
            decode(frame, kind)


def test_limits_hold_to_the_byte() -> None:
    frame = encode(One(torch.zeros(2)), AT)
    assert decode(frame, One, limit=len(frame))[0].a.tolist() == [0.0, 0.0]
    with pytest.raises(MessageError, match=f"at most {len(frame) - 1}"):
        decode(frame, One, limit=len(frame) - 1)


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_noise_is_refused(noise: bytes) -> None:
    with pytest.raises(MessageError):
        decode(noise, One)


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=60), st.binary(max_size=20), st.integers(0, 3))
def test_noise_in_a_well_formed_frame(header: bytes, payload: bytes, tensors: int) -> None:
    frame = craft(header=header, payload=payload, tensors=tensors)
    try:
        came, envelope = decode(frame, One)
    except MessageError:
        return
    assert encode(came, envelope) == frame


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.one_of(st.integers(0, 3), st.integers(0, 2**32 - 1)), max_size=8),
    st.integers(0, 8),
    st.binary(max_size=64),
)
def test_noise_in_shapes(shape: list[int], code: int, payload: bytes) -> None:
    frame = craft(tuple(shape), payload, code=code)
    try:
        came, envelope = decode(frame, One)
    except MessageError:
        return
    assert encode(came, envelope) == frame


# Finite or not


def not_finite(message: Any) -> str | None:
    """The field whose values may not be sent, by the sentence that refuses them."""
    try:
        sendable(message, "bank", "embed", 3)
    except TrainingError as error:
        found = re.match(r"bank sent values that are not finite in '(\w+)' of step 'embed' in round 3;", str(error))
        assert found is not None
        return found[1]
    return None


def test_values_that_are_not_finite_are_refused_with_the_name_of_the_field() -> None:
    assert not_finite(Two(torch.zeros(0), torch.tensor([1, 2]))) is None
    assert not_finite(Two(torch.ones(2), torch.tensor([0.0, math.nan]))) == "b"
    assert not_finite(Two(torch.tensor([math.inf, -math.inf]), torch.tensor(math.nan))) == "a"


def test_what_may_be_sent_lies_in_the_order_of_the_wire_and_without_gradients() -> None:
    turned = torch.arange(6.0).reshape(2, 3).T.requires_grad_()
    fields = sendable(One(turned), "bank", "embed", 3)
    assert list(fields) == ["a"] and torch.equal(fields["a"], turned)
    assert fields["a"].is_contiguous() and not fields["a"].requires_grad


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64], ids=str)
def test_a_sum_that_overflows_accuses_nobody(dtype: torch.dtype) -> None:
    assert not_finite(One(torch.full((4,), torch.finfo(dtype).max, dtype=dtype))) is None


# No code crosses the wire


def test_nothing_in_the_package_can_run_what_it_reads() -> None:
    forbidden = {"pickle", "cPickle", "marshal", "shelve", "dill", "cloudpickle", "joblib", "runpy"}
    for path in Path(colonnade.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            imported: list[str] = []
            if isinstance(node, ast.Import):
                imported = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                imported = [node.module or "", *(alias.name for alias in node.names)]
            assert not forbidden & {name.split(".")[0] for name in imported}, f"{path}: {imported}"
            if isinstance(node, ast.Call):
                called = ast.unparse(node.func)
                assert called not in ("eval", "exec", "compile", "__import__", "torch.load"), f"{path}: {called}"
                allowed = [ast.unparse(k.value) for k in node.keywords if k.arg in ("allow_pickle", "weights_only")]
                assert allowed in ([], ["False"]), f"{path}: {called} with pickle"


def test_a_header_that_came_before_is_read_as_strictly_again() -> None:
    def frame(number: int) -> bytes:
        return encode({"h": torch.ones(2, 3)}, Envelope("embed", "party 1", number))

    assert [wire.decode_fields(frame(number))[1].round for number in (0, 7, 2**32 - 1, 7)] == [0, 7, 2**32 - 1, 7]
    longer = frame(7) + bytes(4)
    with pytest.raises(MessageError, match="the shapes account for"):
        wire.decode_fields((len(longer) - 4).to_bytes(4, "little") + longer[4:])
    bad = frame(7).replace(struct.pack("<f", 1.0), struct.pack("<f", math.nan))
    with pytest.raises(MessageError, match="not finite"):
        wire.decode_fields(bad)
    first, second = (wire.decode_fields(frame(7))[0]["h"] for _ in range(2))
    first.zero_()
    assert torch.equal(second, torch.ones(2, 3)), "two frames share their memory"
