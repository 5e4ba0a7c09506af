"""From a WGSL text to its tree. The grammar is that of the WGSL specification, without checks of meaning."""

from __future__ import annotations

import re
from typing import NoReturn

from . import tree
from .tokens import SyntaxFault, Token, tokens
from .tree import Block, Expression, Name, Statement

_GENERIC = re.compile(r"array|atomic|bitcast|ptr|vec[234]|mat[234]x[234]|(?:texture|subgroup_matrix)_\w+|binding_array")
_PRECEDENCE = [["||"], ["&&"], ["|"], ["^"], ["&"], ["==", "!="], ["<", ">", "<=", ">="], ["<<", ">>"], ["+", "-"]]
_PRECEDENCE += [["*", "/", "%"]]
_LEVEL = {sign: level for level, signs in enumerate(_PRECEDENCE) for sign in signs}
_ASSIGNMENTS = {"=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>="}


def parse(text: str) -> list[tree.Node]:
    """The declarations and directives of a module. SyntaxFault where the text is no WGSL."""
    return _Parser(tokens(text), text).module()


class _Parser:
    def __init__(self, found: list[Token], text: str) -> None:
        self._tokens = found
        self._text = text
        self._at = 0

    # tokens

    @property
    def _next(self) -> Token:
        return self._tokens[self._at]

    @property
    def _last_end(self) -> int:
        return self._tokens[self._at - 1].end

    def _take(self) -> Token:
        self._at += 1
        return self._tokens[self._at - 1]

    def _accept(self, text: str) -> bool:
        if self._next.text == text:
            self._at += 1
            return True
        return False

    def _is_next(self, text: str) -> bool:
        return self._next.text == text

    def _expect(self, text: str) -> Token:
        if self._next.text != text:
            self._fail(repr(text))
        return self._take()

    def _word(self) -> Token:
        if self._next.kind != "word":
            self._fail("a name")
        return self._take()

    def _fail(self, wanted: str) -> NoReturn:
        found = self._next.text or "the end of the text"
        raise SyntaxFault(f"expected {wanted}, found {found!r}", self._next.start)

    # declarations

    def module(self) -> list[tree.Node]:
        found: list[tree.Node] = []
        while self._next.kind != "end":
            if not self._accept(";"):
                found.append(self._global())
        return found

    def _global(self) -> tree.Node:
        start = self._next.start
        attributes = self._attributes()
        kind = self._word().text
        match kind:
            case "enable" | "requires" | "diagnostic":
                first = self._last_end
                while self._next.text != ";" and self._next.kind != "end":
                    self._take()
                text = self._text[first : self._last_end].strip()
                self._expect(";")
                return tree.Directive(start, self._last_end, kind, text)
            case "alias":
                name = self._word().text
                self._expect("=")
                alias = tree.Alias(start, 0, name, self._type())
                self._expect(";")
                alias.end = self._last_end
                return alias
            case "struct":
                name = self._word().text
                self._expect("{")
                members = self._parameters("}")
                return tree.Struct(start, self._last_end, name, members)
            case "fn":
                return self._function(start, attributes)
            case "var" | "const" | "override":
                space = access = ""
                if kind == "var" and self._accept("<"):
                    space = self._word().text
                    access = self._word().text if self._accept(",") else ""
                    self._accept(",")
                    self._expect(">")
                name = self._word().text
                declared = self._type() if self._accept(":") else None
                value = self._expression() if self._accept("=") else None
                self._expect(";")
                return tree.Global(start, self._last_end, kind, name, space, access, declared, value, attributes)
            case "const_assert":
                self._expression()
                self._expect(";")
                return tree.Directive(start, self._last_end, kind, "")
        self._at -= 1
        self._fail("a declaration")

    def _function(self, start: int, attributes: tree.Attributes) -> tree.Function:
        name = self._word().text
        self._expect("(")
        parameters = self._parameters(")")
        result = None
        if self._accept("->"):
            self._attributes()
            result = self._type()
        body = self._block()
        return tree.Function(start, self._last_end, name, attributes, parameters, result, body)

    def _parameters(self, close: str) -> list[tree.Parameter]:
        found: list[tree.Parameter] = []
        while not self._accept(close):
            start = self._next.start
            attributes = self._attributes()
            name = self._word()
            self._expect(":")
            declared = self._type()
            found.append(tree.Parameter(start, self._last_end, name.text, declared, attributes, name.start))
            if not self._accept(",") and self._next.text != close:
                self._fail(f"',' or {close!r}")
        return found

    def _attributes(self) -> tree.Attributes:
        found: tree.Attributes = {}
        while self._accept("@"):
            name = self._word().text
            found[name] = self._arguments() if self._accept("(") else []
        return found

    # statements

    def _block(self) -> Block:
        self._attributes()
        start = self._expect("{").start
        statements = self._statements("}")
        self._expect("}")
        return Block(start, self._last_end, statements)

    def _statements(self, *ends: str) -> list[Statement]:
        """Statements up to one of the words ``ends``, which is left."""
        found: list[Statement] = []
        while self._next.text not in ends:
            if not self._accept(";"):
                found.append(self._statement())
        return found

    def _statement(self) -> Statement:
        start = self._next.start
        self._attributes()
        match self._next.text:
            case "{":
                return self._block()
            case "if":
                return self._if()
            case "switch":
                return self._switch()
            case "for":
                return self._for()
            case "while":
                self._take()
                condition = self._expression()
                body = self._block()
                return tree.Loop(start, self._last_end, None, condition, None, body)
            case "loop":
                self._take()
                self._attributes()
                opening = self._expect("{").start
                statements = self._statements("continuing", "}")
                update = self._block() if self._accept("continuing") else None
                self._expect("}")
                body = Block(opening, self._last_end, statements)
                return tree.Loop(start, self._last_end, None, None, update, body)
            case "return":
                self._take()
                value = None if self._is_next(";") else self._expression()
                self._expect(";")
                return tree.Return(start, self._last_end, value)
            case "break" | "continue" | "discard" as kind:
                self._take()
                if self._accept("if"):
                    found: Statement = tree.BreakIf(start, 0, self._expression())
                else:
                    found = tree.Jump(start, 0, kind)
                self._expect(";")
                found.end = self._last_end
                return found
        found = self._simple_statement()
        self._expect(";")
        return found

    def _simple_statement(self) -> Statement:
        """A statement that may stand in the head of a for: a declaration, an assignment or a call."""
        start = self._next.start
        kind = self._next.text
        if kind in ("let", "var", "const"):
            self._take()
            if self._accept("<"):
                self._word()
                self._expect(">")
            name = self._word().text
            declared = self._type() if self._accept(":") else None
            value = self._expression() if self._accept("=") else None
            return tree.Declaration(start, self._last_end, kind, name, declared, value)
        if kind == "const_assert":
            self._take()
            self._expression()
            return Block(start, self._last_end, [])
        target = self._unary()
        sign = self._operator()
        if sign in ("++", "--"):
            one = tree.Literal(self._next.start, self._last_end, "1")
            return tree.Assignment(start, self._last_end, target, f"{sign[0]}=", one)
        if sign in _ASSIGNMENTS:
            value = self._expression()
            return tree.Assignment(start, self._last_end, target, sign, value)
        if sign or not isinstance(target, tree.Call):
            self._fail("a statement")
        return tree.Run(start, self._last_end, target)

    def _operator(self) -> str:
        """The assignment or increment that comes next, taken; empty if there is none."""
        if self._next.text == ">":
            joined = self._joined()
            if joined == ">>=":
                self._at += 3
                return joined
            return ""
        if self._next.text in _ASSIGNMENTS or self._next.text in ("++", "--"):
            return self._take().text
        return ""

    def _if(self) -> tree.If:
        start = self._expect("if").start
        condition = self._expression()
        then = self._block()
        otherwise: Block | tree.If | None = None
        if self._accept("else"):
            otherwise = self._if() if self._next.text == "if" else self._block()
        return tree.If(start, self._last_end, condition, then, otherwise)

    def _switch(self) -> tree.Switch:
        start = self._expect("switch").start
        subject = self._expression()
        self._attributes()
        self._expect("{")
        clauses: list[tuple[list[Expression], Block]] = []
        while not self._accept("}"):
            selectors: list[Expression] = []
            if self._next.text == "default":
                word = self._take()
                selectors.append(Name(word.start, word.end, "default"))
            else:
                self._expect("case")
                while self._next.text not in (":", "{"):
                    selectors.append(self._expression())
                    self._accept(",")
            self._accept(":")
            clauses.append((selectors, self._block()))
        return tree.Switch(start, self._last_end, subject, clauses)

    def _for(self) -> tree.Loop:
        start = self._expect("for").start
        self._expect("(")
        first = None if self._next.text == ";" else self._simple_statement()
        self._expect(";")
        condition = None if self._next.text == ";" else self._expression()
        self._expect(";")
        update = None
        if self._next.text != ")":
            step = self._simple_statement()
            update = Block(step.start, step.end, [step])
        self._expect(")")
        body = self._block()
        return tree.Loop(start, self._last_end, first, condition, update, body)

    # expressions

    def _type(self) -> Name:
        word = self._word()
        name = Name(word.start, word.end, word.text)
        if self._next.text == "<":
            self._template(name)
        return name

    def _template(self, name: Name) -> None:
        self._expect("<")
        while not self._accept(">"):
            name.arguments.append(self._expression(in_template=True))
            if not self._accept(",") and self._next.text != ">":
                self._fail("',' or '>'")
        name.end = self._last_end

    def _expression(self, level: int = 0, *, in_template: bool = False) -> Expression:
        """An expression of operators of ``level`` or above. A sign that may close a template list ends one in it."""
        begin = self._next.start
        left = self._unary()
        while True:
            sign = self._joined() if self._next.text == ">" else self._next.text
            own = _LEVEL.get(sign, -1)
            if own < level or (in_template and sign[0] == ">"):
                return left
            self._at += len(sign) if sign[0] == ">" else 1
            right = self._expression(own + 1, in_template=in_template)
            left = tree.Binary(begin, self._last_end, sign, left, right)

    def _joined(self) -> str:
        """``>`` with the signs that touch it: ``>=``, ``>>`` or ``>>=``."""
        found = ""
        for token in self._tokens[self._at : self._at + 3]:
            if token.start != self._next.start + len(found) or token.text not in (">", "="):
                break
            found += token.text
            if token.text == "=":
                break
        return found if found in (">", ">=", ">>", ">>=") else found[:1]

    def _unary(self) -> Expression:
        token = self._next
        if token.text == "&&":  # the address of an address; no type has one
            self._fail("an expression")
        if token.text in ("-", "!", "~", "*", "&"):
            self._take()
            operand = self._unary()
            return tree.Unary(token.start, self._last_end, token.text, operand)
        return self._postfix()

    def _postfix(self) -> Expression:
        token = self._take()
        found: Expression
        if token.kind == "number" or token.text in ("true", "false"):
            found = tree.Literal(token.start, token.end, token.text)
        elif token.text == "(":
            found = self._expression()
            self._expect(")")
        elif token.kind == "word":
            name = Name(token.start, token.end, token.text)
            if self._next.text == "<" and _GENERIC.fullmatch(token.text):
                self._template(name)
            found = name
            if self._accept("("):
                arguments = self._arguments()
                found = tree.Call(token.start, self._last_end, name, arguments)
        else:
            self._at -= 1
            self._fail("an expression")
        while True:
            if self._accept("["):
                index = self._expression()
                self._expect("]")
                found = tree.Index(token.start, self._last_end, found, index)
            elif self._accept("."):
                member = self._word().text
                found = tree.Member(token.start, self._last_end, found, member)
            else:
                return found

    def _arguments(self) -> list[Expression]:
        """Expressions up to the closing parenthesis, the opening one already taken."""
        found: list[Expression] = []
        while not self._accept(")"):
            found.append(self._expression())
            if not self._accept(",") and self._next.text != ")":
                self._fail("',' or ')'")
        return found
