from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datasets.text import TextLines, read_lines, text_files
from harness.errors import UsageError
from workloads.base import RecordSource


@pytest.mark.parametrize(
    ("content", "offset"), [(b"good\n\0bad", 5), (b"caf\xe9 noir", 3), (b"ok \xc3\x28", 3)]
)
def test_what_is_not_text_is_named_with_its_offset(
    tmp_path: Path, content: bytes, offset: int
) -> None:
    path = tmp_path / "image.png"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=rf"image\.png is not text: byte {offset} is 0x") as error:
        read_lines([path])
    assert "UTF-8" in error.value.remedy


def test_no_text_at_all(tmp_path: Path) -> None:
    (tmp_path / "empty").write_text(" \n\n")
    with pytest.raises(UsageError, match="no line of text"):
        read_lines([tmp_path / "empty"])


def test_missing_paths_are_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"there is no .*/nowhere"):
        text_files([tmp_path / "nowhere"])


def test_directories_are_walked_in_order_without_hidden_files(tmp_path: Path) -> None:
    for name in ("b.txt", "a/z.txt", "a/c.txt", ".git/x", ".hidden", "__pycache__/x.pyc"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
    found = [str(path.relative_to(tmp_path)) for path in text_files([tmp_path])]
    assert found == ["b.txt", "a/c.txt", "a/z.txt"]


def test_records_are_the_text_in_order_dealt_to_the_partitions(tmp_path: Path) -> None:
    poem = tmp_path / "poem.txt"
    poem.write_text("one\n\ntwo\n   \nthree\nfour\nfive\n")
    source = TextLines(paths=[str(poem)], partitions=2, seed=7)
    assert isinstance(source, RecordSource)
    dealt = [source.payloads(i % 2, i // 2, 1)[0] for i in range(5)]
    lines = read_lines([poem])
    start = lines.index(dealt[0])
    assert dealt == lines[start:] + lines[:start]


@given(
    start=st.integers(0, 10_000),
    count=st.integers(0, 50),
    cut=st.integers(0, 50),
    partition=st.integers(0, 2),
    seed=st.integers(0, 2**63 - 1),
)
def test_records_depend_on_their_index_alone(
    start: int, count: int, cut: int, partition: int, seed: int
) -> None:
    paths = [__file__]
    whole = TextLines(paths=paths, partitions=3, seed=seed).payloads(partition, start, count)
    again = TextLines(paths=paths, partitions=3, seed=seed)
    cut = min(cut, count)
    rest = again.payloads(partition, start + cut, count - cut)
    assert again.payloads(partition, start, cut) + rest == whole
