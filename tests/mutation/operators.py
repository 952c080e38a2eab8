"""The changes that are tried: one node of a module's syntax tree at a time.

Texts are never changed: a message is held by the golden outputs, not by unit tests.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

_COMPARISONS: Final[Mapping[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
_OPERATORS: Final[Mapping[type[ast.operator], type[ast.operator]]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
    ast.BitXor: ast.BitOr,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
_CALLS: Final[Mapping[str, str]] = {"min": "max", "max": "min", "any": "all", "all": "any"}

Change = Callable[[ast.AST], ast.AST]


@dataclass(frozen=True, slots=True)
class Mutation:
    """One change. ``at`` is the place of the changed node in ``ast.walk`` of the whole module.

    ``function`` is the line and the qualified name of the outermost function that holds the node; ``None`` for what is
    evaluated on import: constants, defaults, decorators.
    """

    path: str
    line: int
    column: int
    what: str
    at: int
    variant: int
    function: tuple[int, str] | None

    @property
    def name(self) -> str:
        """Stable within one version of the file."""
        return f"{self.path}:{self.line}:{self.column}: {self.what}"


def mutations(path: str, source: str) -> list[Mutation]:
    """Every change of a module, in the order of its lines."""
    tree = ast.parse(source)
    spots = _Spots()
    spots.visit(tree)
    found = []
    for at, node in enumerate(ast.walk(tree)):
        if node in spots.reachable:
            for variant, (what, _) in enumerate(_changes(node)):
                line, column = getattr(node, "lineno", 0), getattr(node, "col_offset", 0)
                found.append(Mutation(path, line, column, what, at, variant, spots.reachable[node]))
    return sorted(found, key=lambda each: (each.line, each.column, each.variant))


def mutated(source: str, mutation: Mutation) -> ast.Module:
    """The syntax tree of the module with the change in it."""
    tree = ast.parse(source)
    target = next(node for at, node in enumerate(ast.walk(tree)) if at == mutation.at)
    change = list(_changes(target))[mutation.variant][1]
    _Replacing(target, change(copy.deepcopy(target))).visit(tree)
    return ast.fix_missing_locations(tree)


class _Replacing(ast.NodeTransformer):
    def __init__(self, target: ast.AST, new: ast.AST) -> None:
        self._target = target
        self._new = ast.copy_location(new, target)

    def visit(self, node: ast.AST) -> ast.AST:
        return self._new if node is self._target else self.generic_visit(node)


class _Spots(ast.NodeVisitor):
    """The nodes that may be changed, each with its outermost function."""

    def __init__(self) -> None:
        self.reachable: dict[ast.AST, tuple[int, str] | None] = {}
        self._classes: list[str] = []
        self._function: tuple[int, str] | None = None

    def visit(self, node: ast.AST) -> None:
        self.reachable[node] = self._function
        super().visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self.reachable.pop(node)
        for default in (*node.args.defaults, *(each for each in node.args.kw_defaults if each is not None)):
            self.visit(default)
        outer = self._function
        if outer is None:
            self._function = (_first_line(node), ".".join((*self._classes, node.name)))
        for statement in node.body:
            self.visit(statement)
        self._function = outer

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self.reachable.pop(node)
        self._classes.append(node.name)
        for statement in node.body:
            self.visit(statement)
        self._classes.pop()

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_Raise(self, node: ast.Raise) -> None:
        """The text of an error."""

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """The text of a message."""

    def visit_Import(self, node: ast.Import) -> None:
        self.reachable.pop(node)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        if self._function is None:  # an alias of a type
            self.reachable.pop(node)
        else:
            self.generic_visit(node)


def _first_line(node: ast.FunctionDef) -> int:
    """What the code object calls its first line: that of the first decorator."""
    return min([node.lineno, *(each.lineno for each in node.decorator_list)])


def _changes(node: ast.AST) -> Iterator[tuple[str, Change]]:
    match node:
        case ast.Compare() | ast.BinOp() | ast.AugAssign() | ast.BoolOp() | ast.UnaryOp():
            yield from _of_operator(node)
        case ast.Constant(value=bool(value)):
            yield f"{value} -> {not value}", _set("value", not value)
        case ast.Constant(value=int(value)):
            yield f"{value} -> {value + 1}", _set("value", value + 1)
        case ast.Name(id=name, ctx=ast.Load()) if name in _CALLS:
            yield f"{name} -> {_CALLS[name]}", _set("id", _CALLS[name])
        case ast.Break():
            yield "break -> continue", lambda _: ast.Continue()
        case ast.Continue():
            yield "continue -> break", lambda _: ast.Break()
        case ast.Expr(value=ast.Call()):
            yield "call dropped", lambda _: ast.Pass()
        case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test) if _plain(test):
            yield "condition negated", _with_test


def _of_operator(node: ast.AST) -> Iterator[tuple[str, Change]]:
    match node:
        case ast.Compare():
            for at, operator in enumerate(node.ops):
                new = _COMPARISONS[type(operator)]
                yield f"{type(operator).__name__} -> {new.__name__}", _comparing(at, new)
        case ast.BoolOp(op=ast.And()):
            yield "and -> or", _set("op", ast.Or())
        case ast.BoolOp(op=ast.Or()):
            yield "or -> and", _set("op", ast.And())
        case ast.UnaryOp(op=ast.Not()):
            yield "not dropped", lambda each: each.operand  # type: ignore[attr-defined]
        case ast.BinOp(op=operator) | ast.AugAssign(op=operator) if type(operator) in _OPERATORS and not _text(node):
            replacement = _OPERATORS[type(operator)]
            yield f"{type(operator).__name__} -> {replacement.__name__}", _set("op", replacement())


def _plain(test: ast.expr) -> bool:
    """Whether a condition has no operator of its own that would be changed."""
    return isinstance(test, ast.Name | ast.Attribute | ast.Call | ast.NamedExpr | ast.Subscript)


def _text(node: ast.BinOp | ast.AugAssign) -> bool:
    parts = (node.left, node.right) if isinstance(node, ast.BinOp) else (node.value,)
    return any(
        isinstance(each, ast.JoinedStr) or (isinstance(each, ast.Constant) and isinstance(each.value, str))
        for each in parts
    )


def _set(field: str, value: object) -> Change:
    def change(node: ast.AST) -> ast.AST:
        setattr(node, field, value)
        return node

    return change


def _comparing(at: int, new: type[ast.cmpop]) -> Change:
    def change(node: ast.AST) -> ast.AST:
        assert isinstance(node, ast.Compare)
        node.ops[at] = new()
        return node

    return change


def _with_test(node: ast.AST) -> ast.AST:
    assert isinstance(node, ast.If | ast.IfExp | ast.While)
    node.test = ast.UnaryOp(op=ast.Not(), operand=node.test)
    return node
