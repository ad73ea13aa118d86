"""The least that replication costs: what is measured is what was done."""

from pathlib import Path

from bench.replication_floor import GrowingFile, measure

SIZE = 4096


def test_every_operation_is_acknowledged_by_both_backups(tmp_path: Path) -> None:
    made, root, backup = measure(SIZE, 0.1, tmp_path)
    assert made > 0
    assert root > 0
    assert backup > 0
    written = [
        sum(file.stat().st_size for file in (tmp_path / name).iterdir())
        for name in ("root", "backup-0", "backup-1")
    ]
    assert written == [made * SIZE] * 3


def test_a_full_file_is_replaced_by_the_next_one(tmp_path: Path) -> None:
    file = GrowingFile(tmp_path, bytes_max=SIZE)
    for _ in range(3):
        file.write(bytes(SIZE))
        file.flush()
    assert [path.name for path in tmp_path.iterdir()] == ["3"]
    file.close()
