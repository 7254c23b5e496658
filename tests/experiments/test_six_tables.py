"""The six tables: files as a user has them, and a page true to what was kept."""

import numpy as np
from experiments.six_tables import TABLES, as_csv, chance, page


def test_files_have_the_columns_of_their_set(tmp_path):
    truth, labels = np.array(list("aabab"), dtype=object), np.array(list("abbab"), dtype=object)
    text = np.array(["one, two", 'a "b"', "c", "d", "e"], dtype=object)
    given = as_csv(tmp_path, {"text": text}, [np.array([1]), np.array([0, 2]), np.array([3, 4])], truth, labels)
    assert given.files["gold"].read_text() == 'text,teacher_label,label\n"a ""b""",b,a\n'
    assert given.files["pool"].read_text().splitlines() == ["text,teacher_label", '"one, two",a', "c,b"]
    assert (given.chance, given.teacher, given.rows) == (0.5, 1.0, 2)
    assert chance(np.array([3, 3, 7])) == 2 / 3


def test_the_page_says_where_gold_alone_is_not_beaten():
    one = {"chance": 0.5, "teacher": 0.8, "rows": 200, "gold alone": 0.7, "auto": 0.9, "vanilla": 0.85}
    one |= {"auto says": ["…"], "taken": "slam", "compare": {"slam": 0.91}, "sentences": ["Take slam.", "More."]}
    other = one | {"auto": 0.69, "auto says": ["a", "It may be luck.", "Run: …"]}
    text = page({"first": one, "second": other})
    assert "| first | 50.0 | 80.0 | 70.0 | **90.0** (85.2–93.6) | 85.0 | slam, 91.0 |" in text
    assert "frequent class on 2 of 2 tables and above gold alone on 1; on 1 gold alone is ahead by less" in text
    assert "- **second**, `train`: It may be luck." in text
    assert "**first**, `train`" not in text and text.count("Take slam.") == 2 and len(TABLES) == 6
