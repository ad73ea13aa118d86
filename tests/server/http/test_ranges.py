"""The Range header of a request, by RFC 9110."""

import pytest

from penstock.server.http.problems import Problem
from penstock.server.http.ranges import Extent, extent_of


@pytest.mark.parametrize(
    ("header", "start", "count"),
    [
        ("bytes=0-0", 0, 1),
        ("bytes=0-99", 0, 100),
        ("bytes=10-19", 10, 10),
        ("bytes=90-200", 90, 10),
        ("bytes=40-", 40, 60),
        ("bytes=-10", 90, 10),
        ("bytes=-500", 0, 100),
        (" Bytes=1-2 ", 1, 2),
    ],
)
def test_a_range_is_cut_to_what_is_there(header: str, start: int, count: int) -> None:
    assert extent_of(header, 100) == Extent(start, count, is_partial=True)


@pytest.mark.parametrize(
    "header",
    [
        "bytes=100-",
        "bytes=-0",
        "bytes=20-10",
        "bytes=-",
        "bytes=0-1,5-6",
        "lines=1-2",
        "bytes=x-2",
        "bytes=99999999999999999999-",
        "",
    ],
)
def test_what_cannot_be_served_is_refused_with_the_size(header: str) -> None:
    with pytest.raises(Problem) as refused:
        extent_of(header, 100)
    assert refused.value.status == 416
    assert refused.value.headers == {"Content-Range": "bytes */100"}


def test_without_a_range_everything_is_meant() -> None:
    extent = extent_of(None, 100)
    assert extent == Extent(0, 100, is_partial=False)
    assert extent.content_range(100) == "bytes 0-99/100"
