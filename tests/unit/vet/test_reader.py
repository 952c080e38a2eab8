"""Manifest texts to documents, with what cannot be read set aside."""

from hypothesis import given
from hypothesis import strategies as st

from hami_plugins.vet import reader

POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: %s}\n"


def test_a_broken_document_hides_neither_those_before_nor_those_after_it() -> None:
    text = f"{POD % 'one'}---\nkey: ]\n---\n# comment\n{POD % 'two'}"
    found = reader.read(text, source="f.yaml")
    assert [(each.number, each.line) for each in found.documents] == [(1, 1), (3, 8)]
    assert [(each.place.document, each.place.line, each.foreign) for each in found.unreadable] == [(2, 5, False)]


def test_every_broken_document_has_its_own_place() -> None:
    text = f"a: ]\n---\n{POD % 'one'}---\nkind: Pod\n---\nb: 1\n"
    found = reader.read(text, source="f.yaml")
    assert [each.number for each in found.documents] == [2]
    assert [(each.place.document, each.place.line, each.foreign) for each in found.unreadable] == [
        (1, 1, False),
        (3, 7, False),
        (4, 9, True),
    ]
    assert all(each.place.source == "f.yaml" for each in found.unreadable)


def test_a_text_that_cannot_be_taken_apart_is_unreadable_as_a_whole() -> None:
    found = reader.read('{"apiVersion": "v1", "kind": ', source="f.json")
    assert found.documents == ()
    assert len(found.unreadable) == 1


def test_markers_inside_quotes_of_one_document_are_markers_as_yaml_has_it() -> None:
    text = f"{POD % 'one'}---\n" + 'note: "begun\n---\nnot ended"\n'
    found = reader.read(text, source="f.yaml")
    assert [each.number for each in found.documents] == [1]
    assert {each.place.document for each in found.unreadable} == {2, 3}


def test_several_files_are_joined_in_order() -> None:
    one, two = reader.read(POD % "one", source="a"), reader.read("[", source="b")
    found = reader.joined([one, two])
    assert [each.source for each in found.documents] == ["a"]
    assert [each.place.source for each in found.unreadable] == ["b"]


def test_comments_right_above_an_object_belong_to_it() -> None:
    text = f"# of one\n{POD % 'one'}\n# of two\n---\n# of two\n{POD % 'two'}# trailing\n"
    documents = reader.read(text, source="f").documents
    lines = {str(document.raw["metadata"]): lines for document, lines in reader.lines_of(documents, text)}
    assert lines == {"{'name': 'one'}": range(1, 8), "{'name': 'two'}": range(8, 13)}


@given(st.lists(st.sampled_from([POD % "x", "---\n", "a: [\n", '"', "b: 1\n", "\n", "kind: Pod\n", "- 1\n", "# c\n"])))
def test_reading_never_raises_for_its_content(parts: list[str]) -> None:
    text = "".join(parts)
    found = reader.read(text, source="f")
    lines = text.count("\n") + 2  # YAML's parser counts the end as a line of its own
    for document in found.documents:
        assert 1 <= document.line <= lines
    for unreadable in found.unreadable:
        assert 1 <= unreadable.place.line <= lines


def test_a_file_of_sound_parts_that_is_not_sound_as_a_whole_is_unreadable_as_a_whole() -> None:
    alone = '{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "annotations": {"a": "\\ud83d\\ude00"}}}\n'
    assert len(reader.read(alone, source="f").documents) == 1
    found = reader.read(f"{alone}---\n{POD % 'two'}", source="f")  # YAML, which has no pairs of surrogates
    assert found.documents == ()
    assert [(each.place.document, each.place.line) for each in found.unreadable] == [(1, 1)]
