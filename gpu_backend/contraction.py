"""Sums of products over named indices: einsum, tensordot; for arrays and tensors alike, made of ops alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import TypeVar

import opt_einsum

from .errors import ShapeError
from .operators import Operators
from .spec import Shape, float32, normalize_axis

__all__ = ["einsum", "tensordot"]

X = TypeVar("X", bound=Operators)

FIRST_DOT = 0x100  # characters from here on are the indices of dimensions without a letter


def tensordot(a: X, b: X, axes: int | Sequence[Sequence[int]] = 2) -> X:
    """The sum of a b over pairs of axes: the last ``axes`` of a with the first of b, or those that two sequences name.

    The result has the other dimensions of a, then those of b; it is one matrix product.
    """
    if isinstance(axes, int):
        if not 0 <= axes <= min(len(a.shape), len(b.shape)):
            raise ShapeError(f"tensordot: shapes {a.shape} and {b.shape} have not {axes} dimensions each to sum over")
        pairs = [(len(a.shape) - axes + n, n) for n in range(axes)]
    else:
        if len(axes) != 2 or len(axes[0]) != len(axes[1]):
            raise ShapeError(f"tensordot: axes is a number or two sequences of one length, not {axes}")
        pairs = [
            (normalize_axis("tensordot", one, len(a.shape)), normalize_axis("tensordot", other, len(b.shape)))
            for one, other in zip(*axes, strict=True)
        ]
    names_a, names_b = _dots(len(a.shape)), [*_dots(len(a.shape) + len(b.shape))[len(a.shape) :]]
    for one, other in pairs:
        if names_b[other] in names_a or names_a[one] in names_b:
            raise ShapeError(f"tensordot: axes {axes} name a dimension twice")
        if a.shape[one] != b.shape[other]:
            raise ShapeError(
                f"tensordot: axis {one} of {a.shape} has extent {a.shape[one]}, axis {other} of {b.shape} has "
                f"{b.shape[other]}"
            )
        names_b[other] = names_a[one]
    output = "".join(name for name in (*names_a, *names_b) if (name in names_a) != (name in names_b))
    return _ordered(_pair((a, names_a), (b, "".join(names_b)), set(output)), output)


def einsum(subscripts: str, *operands: X) -> X:
    """Sums of products over named indices, in numpy's notation: ``einsum("bij,bjk->bik", a, b)``.

    One letter per dimension; an index that the right side lacks is summed over, one that an operand names twice takes
    its diagonal. Without a right side it is the indices that occur once, in the order of the alphabet. ``...`` stands
    for dimensions that broadcast. Any number of operands: opt_einsum chooses the order of pairs, each of which is one
    matrix product. The result of several operands is a float. ShapeError if the notation or the extents do not fit.
    """
    given = list(operands)
    if len(given) > 1:
        given = [x if x.dtype.is_float else x.astype(float32) for x in given]
    shapes = tuple(x.shape for x in given)
    terms, output = _parse(subscripts, shapes)
    sizes = _sizes(subscripts, terms, shapes)
    known = [_simple(x, term, sizes) for x, term in zip(given, terms, strict=True)]
    for places in _path(tuple(names for _, names in known), output, tuple(x.shape for x, _ in known)):
        chosen = [known.pop(place) for place in sorted(places, reverse=True)]
        made = chosen.pop()
        while chosen:
            other = chosen.pop()
            made = _pair(made, other, {*output}.union(*(names for _, names in (*known, *chosen))))
        known.append(made)
    result = _ordered(known[0], output)
    return result._apply("clone") if any(result is x for x in operands) else result


def _pair(a: tuple[X, str], b: tuple[X, str], kept: set[str]) -> tuple[X, str]:
    """The product of two tensors, summed over the indices that are not ``kept``."""
    x, names_x = _summed(a, kept | {*b[1]})
    z, names_z = _summed(b, kept | {*names_x})
    shared = [name for name in names_x if name in names_z]
    left = "".join(name for name in names_x if name not in names_z)
    right = "".join(name for name in names_z if name not in names_x)
    batch = "".join(name for name in shared if name in kept)
    inner = "".join(name for name in shared if name not in kept)
    sizes = dict(zip(names_x + names_z, x.shape + z.shape, strict=True))

    def extents(names: str) -> Shape:
        return tuple(sizes[name] for name in names)

    if not inner or not (left or right):
        aligned = _permuted((z, names_z), "".join(shared) + right)
        shape = tuple(1 if name in left else sizes[name] for name in names_x + right)
        made = _shaped(x, extents(names_x) + (1,) * len(right)) * _shaped(aligned, shape)
        return _summed((made, names_x + right), kept)
    stack = (math.prod(extents(batch)),) if batch else ()
    M, N, K = (math.prod(extents(names)) for names in (left, right, inner))
    x_turned, z_turned = (
        left != "" and names_x == batch + inner + left,
        right != "" and names_z == batch + right + inner,
    )
    x = _permuted((x, names_x), batch + (inner + left if x_turned else left + inner))
    z = _permuted((z, names_z), batch + (right + inner if z_turned else inner + right))
    x = _shaped(x, (*stack, K, M) if x_turned else (*stack, M, K))
    z = _shaped(z, (*stack, N, K) if z_turned else (*stack, K, N))
    made = x._meet("matmul", x, z, transpose_a=x_turned, transpose_b=z_turned)
    return _shaped(made, extents(batch + left + right)), batch + left + right


def _shaped(x: X, shape: Shape) -> X:
    return x._apply("reshape", shape=shape)


def _summed(x: tuple[X, str], kept: set[str]) -> tuple[X, str]:
    """An array summed over the indices that are not ``kept``."""
    axes = [axis for axis, name in enumerate(x[1]) if name not in kept]
    return (x[0]._apply("sum", axis=axes), "".join(name for name in x[1] if name in kept)) if axes else x


def _ordered(x: tuple[X, str], output: str) -> X:
    """An array summed over the indices that are not in ``output``, its dimensions in that order."""
    return _permuted(_summed(x, {*output}), output)


def _permuted(x: tuple[X, str], order: str) -> X:
    return x[0] if x[1] == order else x[0]._apply("permute_dims", axes=tuple(x[1].index(name) for name in order))


def _simple(x: X, term: str, sizes: dict[str, int]) -> tuple[X, str]:
    """An array with each index once, and without the dimensions of extent 1 that broadcast."""
    names = term
    for name in term:
        while names.count(name) > 1:
            first, second = names.index(name), names.rindex(name)
            x = x._apply("diagonal", axis1=first, axis2=second)
            names = names[:first] + names[first + 1 : second] + names[second + 1 :] + name
    stretched = [axis for axis, name in enumerate(names) if x.shape[axis] != sizes[name]]
    if stretched:
        x = _shaped(x, tuple(extent for axis, extent in enumerate(x.shape) if axis not in stretched))
        names = "".join(name for axis, name in enumerate(names) if axis not in stretched)
    return x, names


def _dots(count: int) -> str:
    return "".join(chr(FIRST_DOT + place) for place in range(count))


@lru_cache(maxsize=512)
def _parse(subscripts: str, shapes: tuple[Shape, ...]) -> tuple[tuple[str, ...], str]:
    """The indices of each operand and those of the result. What ... stands for counts from the last dimension of it."""
    left, arrow, right = subscripts.replace(" ", "").partition("->")
    parts = left.split(",")
    if len(parts) != len(shapes):
        raise ShapeError(f"einsum: {subscripts!r} has {len(parts)} operands, {len(shapes)} are given")
    terms = tuple(_term(subscripts, part, shape) for part, shape in zip(parts, shapes, strict=True))
    named = {*"".join(terms)}
    dots = "".join(sorted((name for name in named if ord(name) >= FIRST_DOT), reverse=True))
    if not arrow:
        return terms, dots + "".join(sorted(name for name in named - {*dots} if left.count(name) == 1))
    before, found, after = right.partition("...")
    _check_letters(subscripts, before + after)
    if dots and not found:
        raise ShapeError(f"einsum: {subscripts!r} has ... on the left side only; sum over these dimensions afterwards")
    for letter in before + after:
        if letter not in named or (before + after).count(letter) > 1:
            what = "twice on the right side" if letter in named else "on the right side only"
            raise ShapeError(f"einsum: {subscripts!r} has the index {letter!r} {what}")
    return terms, before + dots + after


def _term(subscripts: str, part: str, shape: Shape) -> str:
    before, dots, after = part.partition("...")
    _check_letters(subscripts, before + after)
    rest = len(shape) - len(before) - len(after)
    if rest < 0 or (rest and not dots):
        raise ShapeError(f"einsum: {part!r} in {subscripts!r} is given shape {shape}, of {len(shape)} dimensions")
    return before + _dots(rest)[::-1] + after


def _check_letters(subscripts: str, letters: str) -> None:
    for letter in letters:
        if not (letter.isascii() and letter.isalpha()):
            raise ShapeError(f"einsum: {letter!r} in {subscripts!r} is no letter, nor part of '...', ',' or '->'")


def _sizes(subscripts: str, terms: tuple[str, ...], shapes: tuple[Shape, ...]) -> dict[str, int]:
    """The extent of each index. An extent of 1 broadcasts, but not along a diagonal."""
    sizes: dict[str, int] = {}
    for term, shape in zip(terms, shapes, strict=True):
        for axis, (name, extent) in enumerate(zip(term, shape, strict=True)):
            other = shape[term.index(name)] if name in term[:axis] else sizes.get(name, extent)
            if other != extent and (name in term[:axis] or 1 not in (other, extent)):
                what = f"index {name!r}" if ord(name) < FIRST_DOT else "a dimension of ..."
                raise ShapeError(
                    f"einsum: {what} of {subscripts!r} has the extents {other} and {extent}, in shapes "
                    f"{' and '.join(map(str, shapes))}"
                )
            sizes[name] = other if extent == 1 else extent
    return sizes


@lru_cache(maxsize=512)
def _path(terms: tuple[str, ...], output: str, shapes: tuple[Shape, ...]) -> tuple[tuple[int, ...], ...]:
    """Which operands to contract, step by step; what comes of them goes to the end."""
    if len(terms) < 3:
        return (tuple(range(len(terms))),)
    found, _ = opt_einsum.contract_path(f"{','.join(terms)}->{output}", *shapes, shapes=True)
    return tuple(tuple(places) for places in found)
