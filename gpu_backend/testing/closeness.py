"""``assert_close``: results of a shader against what is expected, with a message that shows where they part."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .accuracy import BOUNDS, WITHOUT_ARGUMENTS, Precision

HostArray = npt.NDArray[Any]

DEFAULT_ULPS = 4.0
PICTURE_COLUMNS = 64
PICTURE_ROWS = 16


def assert_close(
    actual: Any,
    expected: Any,
    *,
    rtol: float | None = None,
    atol: float | None = None,
    ulp: float | None = None,
    tolerance: str | None = None,
    args: Any = None,
    nan: str = "equal",
    subnormals: str = "flush",
) -> None:
    """AssertionError unless every element of ``actual`` is near that of ``expected``.

    ``actual`` has the type that the shader computes in, ``expected`` is best float64. Integers and bools have to be
    equal. An element passes if it is within one of the bounds given: ``atol`` absolute, ``rtol`` relative to the
    expected value, ``ulp`` units in the last place of ``actual``'s type. Without any, 4 ulp.

    ``tolerance="wgsl:exp"`` takes the bound that the WGSL specification sets for a built-in function;
    ``args`` are its arguments, one array or a tuple, where the bound depends on them.

    ``nan``: ``"equal"``, NaN exactly where NaN is expected; ``"ignore"``, elements where either is NaN pass;
    ``"never"``, a NaN fails. Infinities have to be equal; where ``expected`` lies near the largest number, an infinity
    may stand for it. ``subnormals="flush"`` lets 0 stand for a number below the smallest normal one, as WGSL does;
    ``"keep"`` does not.
    """
    a, e = np.asarray(actual), np.asarray(expected)
    if a.shape != e.shape:
        raise AssertionError(f"shapes differ: {a.shape}, expected {e.shape}")
    if nan not in ("equal", "ignore", "never"):
        raise ValueError(f"nan={nan!r}; it is 'equal', 'ignore' or 'never'")
    if subnormals not in ("flush", "keep"):
        raise ValueError(f"subnormals={subnormals!r}; it is 'flush' or 'keep'")
    if e.dtype.kind not in "fiub":
        raise TypeError(f"assert_close expects numbers, not {e.dtype}")
    if a.dtype.kind in "iub":
        fails = a != e
        if fails.any():
            raise AssertionError(_message(a, e, fails, np.abs(a.astype(np.float64) - e), "equal", None))
        return
    if a.dtype.kind != "f" or a.dtype.itemsize > 8:
        raise TypeError(f"assert_close takes numbers of at most 64 bits, not {a.dtype}")
    precision = Precision(a.dtype)
    exact = e.astype(np.float64)
    bound, described = _bound(precision, exact, rtol, atol, ulp, tolerance, args)
    with np.errstate(all="ignore"):
        error = np.abs(a.astype(np.float64) - exact)
        passes = (error <= bound) & np.isfinite(exact)
        if subnormals == "flush":
            passes |= (a == 0) & (np.abs(exact) < precision.smallest)
        passes |= a == e.astype(a.dtype)  # infinities, and what rounds to them
        past = np.abs(exact) + bound > precision.largest
        passes |= np.isinf(a) & past & (np.sign(a) == np.sign(exact)) & np.isfinite(exact)
    both, either = np.isnan(a) & np.isnan(e), np.isnan(a) | np.isnan(e)
    if nan == "ignore":
        passes |= either
    else:
        passes = np.where(either, both & (nan == "equal"), passes)
    fails = ~np.asarray(passes)
    if fails.any():
        with np.errstate(all="ignore"):
            excess = np.where(np.isfinite(error), error / np.maximum(bound, np.finfo(np.float64).tiny), np.inf)
        raise AssertionError(_message(a, exact, fails, excess, described, precision))


def ulp_distance(actual: Any, expected: Any) -> HostArray:
    """How many numbers of ``actual``'s float type lie between two arrays, element by element; NaN has no distance."""
    a = np.asarray(actual)
    with np.errstate(over="ignore"):
        e = np.asarray(expected).astype(a.dtype)
    distance = np.abs(_ordered(a) - _ordered(e)).astype(np.float64)
    return np.where(np.isnan(a) | np.isnan(e), np.nan, distance)


def _ordered(x: HostArray) -> HostArray:
    """The bits of floats as integers in the order of the floats."""
    width = x.dtype.itemsize
    whole = np.ascontiguousarray(x).view(f"i{width}").astype(np.int64).reshape(x.shape)
    return np.where(whole < 0, -(whole & ((1 << (8 * width - 1)) - 1)), whole)


def _bound(
    precision: Precision,
    exact: HostArray,
    rtol: float | None,
    atol: float | None,
    ulp: float | None,
    tolerance: str | None,
    args: Any,
) -> tuple[HostArray, str]:
    """The largest error that passes, by element, and what it is called."""
    parts: list[HostArray] = []
    names: list[str] = []
    with np.errstate(all="ignore"):
        if tolerance is not None:
            family, _, name = tolerance.partition(":")
            if family != "wgsl" or name not in BOUNDS:
                raise ValueError(f"tolerance={tolerance!r}; it is 'wgsl:' and one of {', '.join(sorted(BOUNDS))}")
            given = args if isinstance(args, tuple) else () if args is None else (args,)
            count = 2 if name in ("pow", "atan2") else 1
            if not given and name not in WITHOUT_ARGUMENTS:
                raise ValueError(f"the bound of {name} depends on its arguments: pass args=")
            if given and len(given) != count and name not in WITHOUT_ARGUMENTS:
                raise ValueError(f"{name} takes {count} argument{'s' * (count > 1)}; args has {len(given)}")
            arrays = tuple(_argument(one, exact.shape) for one in given)
            parts.append(np.nan_to_num(BOUNDS[name](precision, exact, arrays), nan=np.inf, posinf=np.inf))
            names.append(f"the accuracy of WGSL's {name}")
        if ulp is None and rtol is None and atol is None and tolerance is None:
            ulp = DEFAULT_ULPS
        if ulp is not None:
            parts.append(ulp * precision.ulp(exact))
            names.append(f"{_number(ulp)} ulp")
        if rtol is not None:
            parts.append(rtol * np.abs(exact))
            names.append(f"rtol {_number(rtol)}")
        if atol is not None:
            parts.append(np.broadcast_to(np.asarray(atol, np.float64), exact.shape))
            names.append(f"atol {_number(atol)}")
        bound = np.max([np.broadcast_to(part, exact.shape) for part in parts], axis=0)
    return np.where(np.isnan(bound), 0.0, bound), " or ".join(names)


def _argument(given: Any, shape: tuple[int, ...]) -> HostArray:
    array = np.asarray(given, np.float64)
    try:
        return np.broadcast_to(array, shape)
    except ValueError:
        raise ValueError(f"args: an argument of shape {array.shape} does not go with results of {shape}") from None


def _number(bound: Any) -> str:
    return f"{bound:g}" if np.ndim(bound) == 0 else "by element"


def _message(
    a: HostArray, e: HostArray, fails: HostArray, excess: HostArray, described: str, precision: Precision | None
) -> str:
    worst = tuple(int(i) for i in np.unravel_index(int(np.argmax(np.where(fails, excess, -1))), a.shape))
    got, wanted = a[worst], e[worst]
    line = f"worst at {index_text(worst)}: {got!s}, expected {wanted!s}"
    if precision is not None:
        with np.errstate(all="ignore"):
            error = abs(float(got) - float(wanted))
        distance = float(ulp_distance(got, wanted))
        line += f" (error {error:.3g}" + (f", {distance:.0f} ulp" if not np.isnan(distance) else "") + ")"
    rows = [f"{int(fails.sum())} of {fails.size} elements are not {_within(described)}", line]
    if fails.sum() > 1:
        rows.append(f"at {first_indices(fails)}")
    if fails.size > 1:
        rows.append(picture(fails))
    return "\n".join(rows)


def _within(described: str) -> str:
    return described if described == "equal" else f"within {described}"


def index_text(index: tuple[int, ...]) -> str:
    """An index as one would write it."""
    return f"[{', '.join(map(str, index))}]"


def first_indices(mask: HostArray, count: int = 5) -> str:
    """The first indices at which ``mask`` is true, in words; a whole range where they are in a row."""
    if mask.ndim == 0:
        return "the whole value"
    places = np.argwhere(mask)
    flat = np.flatnonzero(mask)
    if len(flat) > 2 and flat[-1] - flat[0] == len(flat) - 1:
        first, last = (index_text(tuple(int(i) for i in places[end])) for end in (0, -1))
        return f"{first} to {last}"
    text = ", ".join(index_text(tuple(int(i) for i in place)) for place in places[:count])
    return text + (f" and {len(places) - count} more" if len(places) > count else "")


def picture(mask: HostArray) -> str:
    """Where ``mask`` is true, as a small picture: rows and columns of the array, each sign a block of elements."""
    grid = mask.reshape(-1, mask.shape[-1]) if mask.ndim > 1 else mask.reshape(1, -1)
    if mask.ndim == 1 and mask.size > PICTURE_COLUMNS:
        grid = np.pad(mask, (0, -mask.size % PICTURE_COLUMNS)).reshape(-1, PICTURE_COLUMNS)
    rows = np.array_split(np.arange(grid.shape[0]), min(grid.shape[0], PICTURE_ROWS))
    columns = np.array_split(np.arange(grid.shape[1]), min(grid.shape[1], PICTURE_COLUMNS))
    lines = []
    for row in rows:
        shares = [grid[np.ix_(row, column)].mean() for column in columns]
        lines.append("".join("." if share == 0 else "#" if share == 1 else "+" for share in shares))
    return "\n".join(f"  |{line}|" for line in lines) + "\n  (# all wrong, + some, . none)"
