"""Tables of letters as people have them: delimiters, decimal marks, encodings, gzip, spreadsheets, lines."""

import gzip
import sys
import zipfile
from datetime import date, datetime
from pathlib import Path

import numpy as np
import pytest

from understudy.errors import UnderstudyError, UnderstudyWarning
from understudy.io.table import Table, read_table

PLAIN = "id,name,price,label\n1,Müller,0.5,neg\n2,Özil,12.25,pos\n3,Sjö,-3.0,neg\n"


def table(folder: Path, content: str | bytes, name: str = "mine.csv") -> Table:
    (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_table(folder / name)


def columns(given: Table) -> dict[str, list[object]]:
    return {name: given.columns[name].tolist() for name in given.names}


WAYS = {
    "commas.csv": PLAIN.encode(),
    "tabs.csv": PLAIN.replace(",", "\t").encode(),
    "tabs.tsv": PLAIN.replace(",", "\t").encode(),
    "bars.csv": PLAIN.replace(",", "|").encode(),
    "points.csv": PLAIN.replace(",", ";").encode(),
    "decimals.csv": PLAIN.replace(",", ";").replace(".", ",").encode(),
    "windows.csv": b"\xef\xbb\xbf" + PLAIN.replace(",", ";").replace(".", ",").replace("\n", "\r\n").encode(),
    "unicode.csv": PLAIN.replace(",", "\t").encode("utf-16"),
    "packed.csv.gz": gzip.compress(PLAIN.encode()),
    "packed.tsv.gz": gzip.compress(PLAIN.replace(",", "\t").encode()),
    "quoted.csv": "\n".join(
        ",".join(f'"{cell}"' for cell in line.split(",")) for line in PLAIN.strip().split("\n")
    ).encode(),
}  # fmt: skip


@pytest.mark.parametrize("name", WAYS)
def test_a_table_means_the_same_however_it_is_written(name: str, tmp_path: Path) -> None:
    expected = {"id": [1, 2, 3], "name": ["Müller", "Özil", "Sjö"], "price": [0.5, 12.25, -3.0]}
    assert columns(table(tmp_path, WAYS[name], name)) == expected | {"label": ["neg", "pos", "neg"]}


def test_json_lines_may_be_packed(tmp_path: Path) -> None:
    content = b'{"f": 1, "label": "a"}\n\n{"f": 2, "label": "b"}\n'
    packed = table(tmp_path, gzip.compress(content), "rows.jsonl.gz")
    assert columns(packed) == columns(table(tmp_path, content, "rows.jsonl"))
    assert packed.line is not None and [packed.line(row) for row in (0, 1)] == [1, 3]


def test_what_was_found_is_said(tmp_path: Path) -> None:
    given = table(tmp_path, "a;b;c\n1,5;1.234,5;7\n2,25;20.000,0;8\n")
    assert columns(given) == {"a": [1.5, 2.25], "b": [1234.5, 20000.0], "c": [7, 8]}
    said = given.columns.source.notes
    cells = ["column 'a' holds numbers: '1,5' is 1.5", "column 'b' holds numbers: '1.234,5' is 1234.5"]
    assert said == ["semicolons between cells", *cells]
    assert not table(tmp_path, PLAIN).columns.source.notes
    assert not table(tmp_path, "a\tb\n1\t2\n", "x.tsv").columns.source.notes


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        # Blanks around numbers and between thousands, of three kinds.
        ("n,t\n 12 ,x\n7,y\n", [12, 7]),
        ("n,t\n1 234,x\n-12 345 678,y\n", [1234, -12345678]),
        ("n;t\n1\u202f234,5;x\n7;y\n", [1234.5, 7.0]),
        ('n,t\n"1,234",x\n"5,678.5",y\n', [1234.0, 5678.5]),
        # A sure column decides for the others.
        ("n;t\n1,234;0,5\n2,500;0,25\n", [1.234, 2.5]),
        ("n;t\n1.234;0,5\n2.500;0,25\n", [1234, 2500]),
        ("n;t\n1,234;0.5\n2,500;0.25\n", [1234, 2500]),
        ("n;t\n1.234;0.5\n2.500;0.25\n", [1.234, 2.5]),
        ("n;t\n12.345.678;x\n7;y\n", [12345678, 7]),
        # Empty cells and words for them.
        ("n;t\n1,5;x\n;y\nNA;z\n", [1.5, None, None]),
        # Not numbers: groups of two, a word.
        ("n;t\n12 34;x\n56 78;y\n", ["12 34", "56 78"]),
        ("n;t\n1,5;x\nmany;y\n", ["1,5", "many"]),
        ("n;t\n1,2,3;x\n4,5,6;y\n", ["1,2,3", "4,5,6"]),
    ],
)
def test_numbers_as_people_write_them(content: str, expected: list[object], tmp_path: Path) -> None:
    found = columns(table(tmp_path, content))["n"]
    assert [None if cell != cell else cell for cell in found] == expected


@pytest.mark.parametrize("cell", ["1,234", "1.234"])
def test_a_number_with_two_readings_stays_text(cell: str, tmp_path: Path) -> None:
    with pytest.warns(UnderstudyWarning, match=rf"column 'n' is read as text: '{cell}' may have a decimal mark"):
        given = table(tmp_path, f"n;t\n{cell};x\n7;y\n")
    assert columns(given)["n"] == [cell, "7"]


def test_a_delimiter_is_never_guessed(tmp_path: Path) -> None:
    with pytest.raises(UnderstudyError, match=r"mine\.csv: commas and semicolons split all lines alike"):
        table(tmp_path, "height;weight, kg\n1,80;75\n1,75;70\n")
    # A known name tells.
    assert table(tmp_path, "label;weight, kg\n1,80;75\n1,75;70\n").names == {"label", "weight, kg"}
    content = "truth;weight, kg\n1,80;75\n1,75;70\n"
    (tmp_path / "mine.csv").write_text(content)
    assert read_table(tmp_path / "mine.csv", columns={"label": "truth"}).names == {"label", "weight, kg"}
    with pytest.raises(
        UnderstudyError, match=r"with semicolons between cells: .*Expected 3 columns, got 4.*; put quotes"
    ):
        table(tmp_path, "a;b;c\n1;2;3\n1;2;3;4\n")


@pytest.mark.parametrize("content", ["name;b\nx;1\nMüller;2\n", "größe;b\nx;1\n"])
def test_another_encoding_is_named(content: str, tmp_path: Path) -> None:
    with pytest.raises(
        UnderstudyError, match=r"line [13] is not UTF-8 text \(as Windows-1252 it holds '(Müller|größe)"
    ):
        table(tmp_path, content.encode("latin-1"))


def test_messages_name_lines_as_an_editor_counts(tmp_path: Path) -> None:
    given = table(tmp_path, '\nf,label\n1,"a\nb"\n\n2,c\n3,""\n')
    assert given.line is not None and [given.line(row) for row in range(3)] == [3, 6, 7]
    with pytest.raises(UnderstudyError, match=r"mine\.csv line 7: column 'label' row 2 is wrong"):
        raise UnderstudyError(f"{given.where('label')} row 2 is wrong")
    own = given.with_columns({"label": np.array(["c"])}, np.array([1]), "rows with a label")
    assert str(UnderstudyError(f"{own.where('label')} row 0")).endswith(
        "mine.csv (rows with a label) line 6: column 'label' row 0"
    )
    # A file that is gone does not hide the message.
    other = table(tmp_path, "f,label\n1,a\n", "gone.csv")
    (tmp_path / "gone.csv").unlink()
    assert str(UnderstudyError(f"{other.where('label')} row 2")).endswith("gone.csv: column 'label' row 2")


def test_damaged_gzip_is_one_line(tmp_path: Path) -> None:
    for content in (b"not gzip", gzip.compress(PLAIN.encode())[:-9]):
        with pytest.raises(UnderstudyError, match=r"cannot read .*mine\.csv\.gz as gzip"):
            table(tmp_path, content, "mine.csv.gz")


def test_a_delimiter_is_named_behind_the_file(tmp_path: Path) -> None:
    with pytest.raises(UnderstudyError, match=r"name it behind the file: mine\.csv#comma"):
        table(tmp_path, "height;weight, kg\n1,80;75\n1,75;70\n")
    given = read_table(tmp_path / "mine.csv#semicolon")
    assert columns(given) == {"height": [1.8, 1.75], "weight, kg": [75, 70]} and str(given.path).endswith("#semicolon")
    assert read_table(f"{tmp_path}/mine.csv#comma").names == {"height;weight", " kg"}
    for name, said in (("mine.csv#point", "named comma, semicolon, tab or bar"), ("none.csv#tab", "csv is not there")):
        with pytest.raises(UnderstudyError, match=said):
            read_table(tmp_path / name)
    # Where a file has such a name, it is that file.
    (tmp_path / "a#b.csv").write_text("x,y\n1,2\n")
    assert read_table(tmp_path / "a#b.csv").names == {"x", "y"}


def workbook(path: Path, sheets: dict[str, list[list[str]]]) -> None:
    """The least that is a workbook."""
    kind = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
    link = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    listed = "".join(f'<sheet name="{name}" sheetId="{i}" r:id="r{i}"/>' for i, name in enumerate(sheets, 1))
    parts = "".join(
        f'<Relationship Id="r{i}" Type="{link}/worksheet" Target="worksheets/sheet{i}.xml"/>'
        for i in range(1, len(sheets) + 1)
    )
    packed = "http://schemas.openxmlformats.org/package/2006"
    with zipfile.ZipFile(path, "w") as book:
        book.writestr("[Content_Types].xml", f'<Types xmlns="{packed}/content-types"/>')
        book.writestr(
            "_rels/.rels",
            f'<Relationships xmlns="{packed}/relationships"><Relationship Id="r" Type="{link}/officeDocument" '
            'Target="xl/workbook.xml"/></Relationships>',
        )
        book.writestr("xl/workbook.xml", f'<workbook {kind} xmlns:r="{link}"><sheets>{listed}</sheets></workbook>')
        book.writestr(
            "xl/_rels/workbook.xml.rels", f'<Relationships xmlns="{packed}/relationships">{parts}</Relationships>'
        )
        for i, rows in enumerate(sheets.values(), 1):
            lines = "".join(
                f'<row r="{r}">'
                + "".join(
                    f'<c r="{chr(65 + c)}{r}" t="inlineStr"><is><t>{cell}</t></is></c>' for c, cell in enumerate(row)
                )
                + "</row>"
                for r, row in enumerate(rows, 1)
            )
            book.writestr(
                f"xl/worksheets/sheet{i}.xml", f"<worksheet {kind}><sheetData>{lines}</sheetData></worksheet>"
            )


def test_a_sheet_is_named_behind_the_file(tmp_path: Path) -> None:
    pytest.importorskip("python_calamine")
    workbook(tmp_path / "mine.xlsx", {"May": [["a", "b"], ["1", "x"]], "June 1": [["a", "b"], ["2", "y"], ["3", "z"]]})
    with pytest.raises(UnderstudyError, match=r"2 sheets with rows \('May', 'June 1'\); name .*mine\.xlsx#SHEET"):
        read_table(tmp_path / "mine.xlsx")
    given = read_table(f"{tmp_path}/mine.xlsx#June 1")
    assert columns(given) == {"a": [2, 3], "b": ["y", "z"]}
    with pytest.raises(UnderstudyError, match=r"mine\.xlsx#June 1 line 3: column 'b' row 1"):
        raise UnderstudyError(f"{given.where('b')} row 1")
    with pytest.raises(UnderstudyError, match=r"no sheet 'july'; it has 'May', 'June 1'"):
        read_table(tmp_path / "mine.xlsx#july")


def test_spreadsheets(tmp_path: Path) -> None:
    pytest.importorskip("python_calamine")
    book = pytest.importorskip("openpyxl").Workbook()
    book.active.append(["id", "when", "at", "ok", "price", "label", "note"])
    book.active.append([7, date(2024, 1, 2), datetime(2024, 1, 2, 3, 4), True, 1.5, "01", 'a "b"'])
    book.active.append([])
    book.active.append([8, date(2024, 1, 3), datetime(2024, 1, 3), False, None, 2, "two\nlines"])
    book.create_sheet("empty")
    book.save(tmp_path / "mine.xlsx")
    given = read_table(tmp_path / "mine.xlsx")
    expected = 'id,when,at,ok,price,label,note\n7,2024-01-02,2024-01-02 03:04:00,true,1.5,01,"a ""b"""\n'
    same = table(tmp_path, expected + '8,2024-01-03,2024-01-03,false,,2,"two\nlines"\n')
    for name in same.names:
        np.testing.assert_array_equal(given.columns[name], same.columns[name])
    assert given.line is not None and [given.line(row) for row in (0, 1)] == [2, 4]
    book["empty"].append(["x"])
    book.save(tmp_path / "mine.xlsx")
    with pytest.raises(UnderstudyError, match=r"2 sheets with rows \('Sheet', 'empty'\); name the one to read"):
        read_table(tmp_path / "mine.xlsx")
    with pytest.raises(UnderstudyError, match=r"cannot read .*bad\.xlsx as a spreadsheet"):
        table(tmp_path, b"no", "bad.xlsx")


def test_spreadsheets_name_their_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "python_calamine", None)
    with pytest.raises(UnderstudyError, match=r'pip install .*\[excel\]"'):
        table(tmp_path, b"no", "mine.xlsx")


def test_a_text_file_of_cells_is_a_table(tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text("f\tlabel\n1\ta\n2\tb\n", encoding="utf-16")
    assert read_table(tmp_path / "t.txt").columns["label"].tolist() == ["a", "b"]
