"""What authors ask to overlook."""

from hami_plugins import vet
from hami_plugins.vendors import builtin

POD = """\
{above}
apiVersion: v1
kind: Pod
metadata:
  name: main
  annotations: {{{annotation}}}
spec:
  containers:
  - name: main
    resources:
      limits:
        nvidia.com/gpu: 1
        nvidia.com/gpumem: 16Gi{behind}
        nvidia.com/gpucores: 120
---
apiVersion: v1
kind: Pod
metadata: {{name: other}}
spec:
  containers:
  - name: main
    resources: {{limits: {{nvidia.com/gpumem: 16Gi, nvidia.com/gpu: 1}}}}
"""


def found(*, above: str = "", annotation: str = "", behind: str = "") -> list[tuple[int, str]]:
    text = POD.format(above=above, annotation=annotation, behind=behind)
    sources = vet.read(text, source="f")
    return [(each.line, each.rule) for each in vet.vet(sources.documents, builtin())]


EVERYTHING = [(13, "HP211"), (14, "HP207"), (22, "HP211")]


def test_nothing_is_overlooked_unasked() -> None:
    assert found() == EVERYTHING


def test_an_annotation_speaks_for_its_object() -> None:
    said = 'hami-plugins.io/vet-ignore: "HP211, cores-over-whole"'
    assert found(annotation=said) == [(22, "HP211")]


def test_a_comment_on_a_line_of_its_own_speaks_for_its_object() -> None:
    assert found(above="# hami-plugins.io/vet-ignore: HP211,HP207") == [(22, "HP211")]


def test_a_comment_behind_a_value_speaks_for_its_line() -> None:
    assert found(behind="  # hami-plugins.io/vet-ignore: HP211, HP207") == [(14, "HP207"), (22, "HP211")]


def test_words_of_other_rules_overlook_nothing() -> None:
    assert found(above="# hami-plugins.io/vet-ignore: HP101") == EVERYTHING


def test_an_annotation_of_the_pod_template_counts_too() -> None:
    text = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: main}
spec:
  template:
    metadata: {annotations: {hami-plugins.io/vet-ignore: HP211}}
    spec:
      containers:
      - name: main
        resources: {limits: {nvidia.com/gpumem: 16Gi, nvidia.com/gpu: 1}}
"""
    assert vet.vet(vet.read(text, source="f").documents, builtin()) == ()


def test_items_of_a_list_have_their_own_comments() -> None:
    item = "- {apiVersion: v1, kind: Pod, metadata: {name: %s}, spec: {containers: [{name: m, resources: {limits: " + (
        "{nvidia.com/gpu: 1, nvidia.com/gpumem: 16Gi}}}]}}\n"
    )
    text = f"apiVersion: v1\nkind: List\nitems:\n{item % 'a'}# hami-plugins.io/vet-ignore: HP211\n{item % 'b'}"
    findings = vet.vet(vet.read(text, source="f").documents, builtin())
    assert [(each.object, each.line) for each in findings] == [("Pod default/a", 4)]
