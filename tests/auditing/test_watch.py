"""Watching a teacher: what gives an alarm and what does not, and a folder that is continued after a kill."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import understudy as us
from understudy.auditing.teacher_watch import ALARM, NO_CLASS
from understudy.auditing.watch_files import LOOKS, WATCH, WatchFolder
from understudy.cli import app

TRUTH = {f"r{row:03}": ("neg", "pos")[row % 2] for row in range(200)}
WRONG = {"neg": "pos", "pos": "neg"}


def answers(rng: np.random.Generator, n: int, wrong: float, *, flips: float = 0.0) -> dict[str, str]:
    """n anchors; the first tenth is always wrong, of the others a share, and some flip by chance."""
    found = {}
    for row in rng.choice(200, n, replace=False).tolist():
        id = f"r{row:03}"
        off = (row < 20) ^ (rng.random() < (wrong if row >= 20 else 0) + flips)
        found[id] = WRONG[TRUTH[id]] if off else TRUTH[id]
    return found


def test_the_limit_by_hand() -> None:
    """Look 1 of 52 makes one comparison, with half of the chance: 0.025 / 52 = 0.00048. 11 of 11 is 1 in 2,048."""
    for flipped, alarm in ((11, False), (12, True)):
        watch = us.TeacherWatch(TRUTH)
        watch.add(TRUTH, name="reference")
        # As many of both classes as can be, so that no share changes.
        changed = {id: WRONG[label] for id, label in list(TRUTH.items())[:flipped]}
        look = watch.add(TRUTH | changed, name="one")
        assert look.alarm is alarm and look.right == 200 - flipped
    (found,) = look.changes
    assert (found.what, found.label, found.looks) == ("accuracy", None, 1)
    assert found.limit == pytest.approx(ALARM / 2 / 52) and found.p_value == pytest.approx(2**-12)
    assert found.test.difference == pytest.approx(-12 / 200)


def test_answers_that_vary_by_chance_give_no_alarm_and_a_loss_does() -> None:
    rng, watch = np.random.default_rng(0), us.TeacherWatch(TRUTH)
    watch.add(answers(rng, 200, 0, flips=0.1), name="reference")
    for week in range(20):
        assert not watch.add(answers(rng, 40, 0, flips=0.1), name=f"week {week}").alarm
    found = [watch.add(answers(rng, 40, 0.2, flips=0.1)) for _ in range(20)]
    assert found[-1].changes and found[-1].changes[0].what == "accuracy"
    assert found[-1].accuracy.rows == 200 + 40 * 40


def test_shares_of_anchors_and_of_new_rows() -> None:
    watch, rng = us.TeacherWatch(TRUTH), np.random.default_rng(0)
    new = lambda share: [(f"n{row}", "pos" if rng.random() < share else "neg") for row in range(400)]  # noqa: E731
    watch.add([*TRUTH.items(), *new(0.3)], name="reference")
    assert not watch.add(new(0.3)).alarm
    look = watch.add(new(0.5))
    assert {(one.what, one.label) for one in look.changes} == {
        ("share of new rows", "pos"),
        ("share of new rows", "neg"),
    }
    assert look.new_rows == 400 and look.anchors == 0
    # All answered "pos", as right as before where pos is true: of the anchors, both shares and the accuracy.
    look = watch.add(dict.fromkeys(TRUTH, "pos"))
    assert {one.what for one in look.changes} >= {"accuracy", "share"}
    look = watch.add(dict.fromkeys(TRUTH, "") | {"r000": "neg"})
    assert look.without_class == 199 and look.right == 1 and NO_CLASS in {one.label for one in look.changes}
    with pytest.raises(us.UnderstudyError, match=r"none of the answers \['Neg'\] is one of"):
        watch.add({"r000": "Neg"})


def test_a_teacher_that_gives_no_class_any_more_gives_an_alarm() -> None:
    watch = us.TeacherWatch(TRUTH)
    with pytest.raises(us.UnderstudyError, match="none of the answers"):
        watch.add(dict.fromkeys(TRUTH, None), name="reference")
    watch.add(TRUTH, name="reference")
    look = watch.add(dict.fromkeys(TRUTH, None), name="one")
    assert look.without_class == 200 and look.changes[0].what == "accuracy"
    with pytest.raises(us.UnderstudyError, match="none of the answers"):
        watch.add({}, name="two")


def test_whole_years_without_a_change() -> None:
    """Tiny years, of 12 looks with few anchors: alarms are rarer than 5%."""
    alarms = 0
    for seed in range(20):
        rng, watch = np.random.default_rng(seed), us.TeacherWatch(TRUTH, looks_a_year=12)
        watch.add(answers(rng, 200, 0, flips=0.15))
        alarms += any(watch.add(answers(rng, 30, 0, flips=0.15)).alarm for _ in range(12))
    assert alarms <= 4  # of 20 at 5%: more in 3 of 1,000


def test_a_folder_continues_after_a_kill_at_any_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng, whole = np.random.default_rng(0), us.TeacherWatch(TRUTH)
    looks = [(f"look {number}", answers(rng, 50, 0.3 if number > 3 else 0)) for number in range(8)]
    for number, (name, given) in enumerate(looks):
        whole.add(given, name=name)
        with monkeypatch.context() as patched:
            # Killed before the manifest names the new line, then called again.
            patched.setattr(WATCH.__class__, "write", lambda *args, **more: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                WatchFolder(tmp_path, TRUTH).add(list(given.items()), name=name, source=name)
        kept = WatchFolder(tmp_path, TRUTH if number == 0 else None)
        again = kept.add(list(given.items()), name=name, source=name)
        assert (again is None) == (number > 0), "at the beginning nothing is kept; later the line is there"
    assert WatchFolder(tmp_path).watch.looks == whole.looks and whole.looks[-1].alarm
    lines = (tmp_path / LOOKS).read_bytes().splitlines(keepends=True)
    (tmp_path / LOOKS).write_bytes(b"".join(lines[:-1]))
    with pytest.raises(us.UnderstudyError, match="lacks its last lines"):
        WatchFolder(tmp_path)
    (tmp_path / LOOKS).write_bytes(b"".join(lines).replace(b'"neg"', b'"pos"', 1))
    with pytest.raises(us.UnderstudyError, match="not the one that was written"):
        WatchFolder(tmp_path)
    (tmp_path / LOOKS).write_bytes(b"".join([*lines[:-1], lines[-1].replace(b'"look"', b'"lock"')]))
    with pytest.raises(us.UnderstudyError, match="lacks its last lines"):
        WatchFolder(tmp_path)


def test_looks_without_their_manifest_are_kept(tmp_path: Path) -> None:
    given = list(answers(np.random.default_rng(0), 50, 0.3).items())
    with pytest.MonkeyPatch.context() as patched, pytest.raises(ZeroDivisionError):
        patched.setattr(WATCH.__class__, "write", lambda *args, **more: 1 / 0)
        WatchFolder(tmp_path, TRUTH, reference=given)
    WatchFolder(tmp_path, TRUTH, reference=given).add(given, name="week 1", source="week 1")
    looks = (tmp_path / LOOKS).read_bytes()
    (tmp_path / WATCH.manifest).unlink()
    with pytest.raises(us.UnderstudyError, match=r"holds looks\.jsonl but no watch\.json; restore it"):
        WatchFolder(tmp_path, TRUTH, reference=given)
    assert (tmp_path / LOOKS).read_bytes() == looks and looks.count(b"\n") == 2


def test_what_does_not_continue_a_watch_is_refused(tmp_path: Path) -> None:
    with pytest.raises(us.UnderstudyError, match="holds no watch yet; begin it with its anchors"):
        WatchFolder(tmp_path)
    WatchFolder(tmp_path, TRUTH, looks_a_year=12)
    with pytest.raises(us.UnderstudyError, match="other anchors, or other truths"):
        WatchFolder(tmp_path, TRUTH | {"r000": "pos"})
    with pytest.raises(us.UnderstudyError, match="begun with 12 looks a year, not 52"):
        WatchFolder(tmp_path, looks_a_year=52)


def call(code: int, *words: object) -> str:
    result = CliRunner().invoke(app, ["watch", *map(str, words)])
    assert result.exit_code == code, result.output
    return result.output


def write(path: Path, given: dict[str, str], column: str = "label", **more: str) -> Path:
    heading = ",".join(["id", column, *more])
    lines = [",".join([id, label, *more.values()]) for id, label in given.items()]
    path.write_text("\n".join([heading, *lines]) + "\n")
    return path


def test_weeks_from_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    lines = [f"{id},text {id},{label},{label}" for id, label in TRUTH.items()]
    Path("anchors.csv").write_text("\n".join(["id,message,label,teacher_label", *lines]) + "\n")
    said = call(0, "llm", "--gold", "anchors.csv", "--draw", 5, "--out", "ask.csv")
    assert "5 anchors to ask: ask.csv" in said and "reference is what later looks are compared with" in said
    drawn = Path("ask.csv").read_text().splitlines()
    assert drawn[0] == "id,message" and len(set(drawn)) == 6, "without the labels"
    good = {id: TRUTH[id] for id in list(TRUTH)[:60]}
    assert "no alarm" in call(0, "llm", "--answers", write(Path("one.csv"), good))
    assert "nothing new" in call(0, "llm", "--answers", "one.csv"), "a call that is repeated is no look"
    bad = write(Path("two.csv"), {id: WRONG[label] for id, label in good.items()}, "teacher_label")
    said = call(1, "llm", "--answers", bad)
    assert "ALARM: in the last 1 look the accuracy was about 100.0 points lower than before" in said
    call(1, "llm")
    assert CliRunner().invoke(app, ["verify", "llm"]).exit_code == 0
    assert "go together" in call(2, "llm", "--draw", 5)
    assert "there are 200 anchors" in call(2, "llm", "--gold", "anchors.csv", "--draw", 500, "--out", "more.csv")


def test_a_log_has_a_look_for_every_week_that_is_over(tmp_path: Path) -> None:
    anchors, log = write(tmp_path / "anchors.csv", TRUTH), tmp_path / "log.csv"
    some = list(TRUTH.items())
    weeks = ["2026-01-05", "2026-01-11T23:59:59", "2026-01-12", datetime.now(UTC).date().isoformat()]
    rows = [f"{day},{id},{label}" for day in weeks for id, label in some[:30]]
    log.write_text("\n".join(["time,id,label", *rows]) + "\n")
    call(0, tmp_path / "llm", "--gold", anchors, "--answers", log)
    looks = WatchFolder(tmp_path / "llm").watch.looks
    assert [(look.name, look.anchors) for look in looks] == [("2026-W02", 60), ("2026-W03", 30)]
    log.write_text(log.read_text() + "2026-01-20,r001,pos\n")
    call(0, tmp_path / "llm", "--answers", log)
    assert [look.anchors for look in WatchFolder(tmp_path / "llm").watch.looks] == [60, 30, 1]
    log.write_text("time,id,label\nyesterday,r001,pos\n")
    assert "'yesterday'; write it like" in call(2, tmp_path / "llm", "--answers", log)


def test_answers_that_come_after_the_look_of_their_week_are_part_of_the_next(tmp_path: Path) -> None:
    """Each answer counts once, in whatever order and however often the log is read; 2024-12-30 is of 2025-W01."""
    anchors, log = write(tmp_path / "anchors.csv", TRUTH), tmp_path / "log.csv"
    rows = [f"2024-12-30,{id},{label}" for id, label in list(TRUTH.items())[:20]]

    def look_at(lines: list[str]) -> list[tuple[str, int]]:
        log.write_text("\n".join(["time,id,label", *lines]) + "\n")
        call(0, tmp_path / "llm", "--gold", anchors, "--answers", log)
        return [(look.name, look.anchors) for look in WatchFolder(tmp_path / "llm").watch.looks]

    assert look_at(rows) == [("2025-W01", 20)]
    late = ["2025-01-01,r001,pos", "2024-12-24,r002,neg"]  # a second answer of the week, and one of a week before
    assert look_at([*late, *rows]) == [("2025-W01", 20)], "they wait for the next look"
    later = ["2025-01-06T08:00,r003,pos"]
    assert look_at(later) == [("2025-W01", 20), ("2025-W02", 3)], "also where the log has become a new file"
    assert look_at([*late, *later, *rows]) == [("2025-W01", 20), ("2025-W02", 3)]


def test_every_answer_counts_once(tmp_path: Path) -> None:
    """Also those of a second file of the same week, which were left out for rows that had been read; not those that
    are written twice, nor of a year that is a typing error."""
    anchors, some = write(tmp_path / "anchors.csv", TRUTH), {id: TRUTH[id] for id in list(TRUTH)[:30]}
    monday = write(tmp_path / "monday.csv", some, time="2026-01-05")
    tuesday = write(tmp_path / "tuesday.csv", some, time="2026-01-06")
    for _ in range(2):
        call(0, tmp_path / "llm", "--gold", anchors, "--answers", monday, "--answers", tuesday)
    call(0, tmp_path / "llm", "--answers", write(tmp_path / "later.csv", some, time="2026-01-12"))
    assert [look.anchors for look in WatchFolder(tmp_path / "llm").watch.looks] == [30, 60]
    for more in ({}, {"time": "2026-01-05"}):
        twice = write(tmp_path / "twice.csv", some, **more)
        twice.write_text(twice.read_text() + twice.read_text().splitlines()[1] + "\n")
        assert "more than once; keep each answer once" in call(2, tmp_path / "llm", "--answers", twice)
    future = write(tmp_path / "future.csv", some, time=(datetime.now(UTC) + timedelta(days=3)).date().isoformat())
    assert "which is to come; correct it" in call(2, tmp_path / "llm", "--answers", future)


def test_a_look_without_anchors_is_json_and_an_anchor_has_one_truth(tmp_path: Path) -> None:
    anchors = write(tmp_path / "anchors.csv", TRUTH)
    new = write(tmp_path / "new.csv", {"x1": "pos", "x2": "neg"})
    assert "No answer of the last look is to an anchor" in call(
        0, tmp_path / "llm", "--gold", anchors, "--answers", new
    )

    def refuse(name: str) -> None:
        raise AssertionError(name)

    lines = (tmp_path / "llm" / LOOKS).read_text().splitlines()
    assert json.loads(lines[0], parse_constant=refuse)["look"]["accuracy"] is None
    assert not WatchFolder(tmp_path / "llm").watch.looks[0].accuracy.known
    anchors.write_text("id,label\nr1,pos\nr2,neg\nr1,neg\n")
    assert "holds the id 'r1' more than once; an anchor has one" in call(2, tmp_path / "other", "--gold", anchors)


def test_probabilities_are_answers_too(tmp_path: Path) -> None:
    anchors, file = write(tmp_path / "anchors.csv", TRUTH), tmp_path / "answers.jsonl"
    file.write_text("\n".join(json.dumps({"id": id, "teacher_probs": {"neg": 0.2, "pos": 0.8}}) for id in TRUTH))
    call(0, tmp_path / "llm", "--gold", anchors, "--answers", file)
    (look,) = WatchFolder(tmp_path / "llm").watch.looks
    assert (look.anchors, look.right) == (200, 100)


@pytest.mark.parametrize("answers", [None, 5, "r1", [("r1",)], [("r1", "a", "b")], {"r1": np.zeros(2)}])
def test_answers_of_another_shape_are_refused_in_a_line(answers: object) -> None:
    with pytest.raises(us.UnderstudyError, match="look: not a dict of ids and classes"):
        us.TeacherWatch({"r1": "a"}).add(answers, name="look")  # type: ignore[arg-type]


@pytest.mark.parametrize("truth", [{"r1": None}, {"r1": float("nan")}, {"r1": ""}])
def test_an_anchor_has_a_class(truth: dict[str, object]) -> None:
    """None was the class "None", which the teacher never names."""
    with pytest.raises(us.UnderstudyError, match="anchor 'r1' has no true class"):
        us.TeacherWatch(truth)


def test_anchors_may_be_pairs() -> None:
    assert us.TeacherWatch([("r1", "a")]).add({"r1": "a"}).right == 1  # type: ignore[arg-type]
