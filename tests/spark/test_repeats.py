"""Few values for many rows: the same array as Arrow makes of them row by row."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from penstock.spark.repeats import spread

TEXT = st.none() | st.sampled_from(["", "a", "grün"])
KIND = pa.struct([("name", pa.string()), ("size", pa.int32()), ("type", pa.string())])
STRUCT = st.fixed_dictionaries(
    {"name": TEXT, "size": st.none() | st.integers(0, 2), "type": st.just("same")}
)
MAP = st.none() | st.lists(
    st.tuples(st.sampled_from("xyz"), TEXT), max_size=3, unique_by=lambda pair: pair[0]
)


@given(st.data())
def test_values_are_spread_as_arrow_would_take_them(data: st.DataObject) -> None:
    kinds: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
        (pa.string(), TEXT),
        (KIND, st.none() | STRUCT),
        (pa.map_(pa.string(), pa.string()), MAP),
    ]
    kind, values = data.draw(st.sampled_from(kinds))
    given_values = data.draw(st.lists(values, min_size=1, max_size=4))
    indices = data.draw(st.lists(st.integers(0, len(given_values) - 1), max_size=10))
    chosen = pa.array(indices, pa.int32())
    found = spread(given_values, kind, chosen)
    found.validate(full=True)
    assert found.type == kind
    assert found.to_pylist() == pa.array(given_values, kind).take(chosen).to_pylist()
