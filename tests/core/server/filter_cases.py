"""Random fields of chunks, and random filters on them."""

from __future__ import annotations

import math

from hypothesis import strategies as st

BIG = 2**53

odd_texts = st.sampled_from(
    ["", "a*b", "a?b", "a\\b", "*", "\x00", "\ud7fc", "\ud800", "\udfff", "\ue000", "😀", "é"]
)
texts = st.one_of(st.text("ab*?\\", max_size=3), odd_texts, st.text(max_size=3))
long_texts = st.builds(
    lambda head, length, tail: head + "ab" * length + tail, texts, st.sampled_from([1_960, 2_000, 6_000]), texts
)
numbers = st.one_of(
    st.integers(-3, 3),
    st.floats(-3, 3),
    st.builds(lambda sign, more: sign * (BIG + more), st.sampled_from([1, -1]), st.integers(-2, 3)),
    st.sampled_from([2**70, 2**70 + 1, -(2**70) - 1, 10**400, -(10**400), float(2**70), 1.7e308, 5e-324, 0.1, -0.0]),
    st.sampled_from([math.inf, -math.inf]),
)
operands = st.one_of(texts, numbers, st.booleans())
keys = st.sampled_from(["a", "b", "a.b", "", " ", "title", "*", "_id", "k" * 600])
values = st.one_of(
    operands,
    long_texts,
    st.just(math.nan),
    st.lists(st.one_of(texts, numbers, st.booleans()), max_size=3),
    st.builds(lambda one, other: [one, other], texts, long_texts),
    st.just({"no": "value"}),
)
fields = st.dictionaries(keys, values, max_size=4)

comparable = st.one_of(texts, numbers)
operations = st.one_of(
    *(st.fixed_dictionaries({name: operands}) for name in ("$eq", "$ne", "$contains")),
    *(st.fixed_dictionaries({name: st.lists(operands, max_size=4)}) for name in ("$in", "$nin")),
    *(st.fixed_dictionaries({name: comparable}) for name in ("$gt", "$gte", "$lt", "$lte")),
    st.fixed_dictionaries({"$exists": st.booleans()}),
    st.fixed_dictionaries({"$gte": comparable, "$ne": operands}),
    st.fixed_dictionaries({"$eq": long_texts}),
)
conditions = st.dictionaries(keys, st.one_of(operands, operations), max_size=2)
filters = st.recursive(
    conditions,
    lambda inner: st.one_of(
        st.fixed_dictionaries({"$not": inner}),
        st.fixed_dictionaries({"$and": st.lists(inner, min_size=1, max_size=2)}),
        st.fixed_dictionaries({"$or": st.lists(inner, min_size=1, max_size=3)}),
    ),
    max_leaves=4,
)
