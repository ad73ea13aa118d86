"""From words to expressions, by recursive descent.

    selector    = [ disjunction ]                         nothing at all selects everything
    disjunction = conjunction { OR conjunction }
    conjunction = negation { AND negation }
    negation    = NOT negation | predicate
    predicate   = sum [ ( = | <> | != | < | <= | > | >= ) sum
                      | IS [ NOT ] NULL
                      | [ NOT ] BETWEEN sum AND sum
                      | [ NOT ] IN ( item { , item } )
                      | [ NOT ] LIKE string [ ESCAPE string ] ]
    sum         = product { ( + | - ) product }
    product     = signed { ( * | / | % ) signed }
    signed      = { + | - } operand
    operand     = name | string | number | TRUE | FALSE | "(" disjunction ")"
    item        = string | { + | - } number | TRUE | FALSE

What can never be a condition, or a number, where one is needed is refused here. A name may turn out
to be anything, so it is taken everywhere.
"""

from typing import Final, NoReturn

from penstock.broker.selectors.conditions import (
    And,
    Between,
    Comparison,
    Equality,
    In,
    IsNull,
    Like,
    Not,
    Or,
)
from penstock.broker.selectors.expressions import (
    Calculation,
    Expression,
    Literal,
    Name,
    Signed,
    Sort,
)
from penstock.broker.selectors.like import like_pattern
from penstock.broker.selectors.refusal import (
    IN_ITEMS_MAX,
    NESTING_MAX,
    SelectorError,
    quoted,
)
from penstock.broker.selectors.tokens import Kind, Token, tokens_of
from penstock.broker.selectors.values import AFTER, BEFORE, Operator, calculate

_ADDITIVE: Final[dict[Kind, Operator]] = {
    Kind.PLUS: Operator.ADD,
    Kind.MINUS: Operator.SUBTRACT,
}
_MULTIPLICATIVE: Final[dict[Kind, Operator]] = {
    Kind.TIMES: Operator.MULTIPLY,
    Kind.DIVIDED: Operator.DIVIDE,
    Kind.REMAINDER: Operator.REMAINDER,
}
# The order that an operator asks for, and whether equal values will do.
_ORDERS: Final[dict[Kind, tuple[int, bool]]] = {
    Kind.LESS: (BEFORE, False),
    Kind.LESS_OR_EQUAL: (BEFORE, True),
    Kind.GREATER: (AFTER, False),
    Kind.GREATER_OR_EQUAL: (AFTER, True),
}
_ITEM_BEGINNINGS: Final = frozenset(
    {Kind.STRING, Kind.NUMBER, Kind.TRUE, Kind.FALSE, Kind.PLUS, Kind.MINUS}
)


class Parser:
    """Reads one selector, once. Raises `SelectorError`."""

    def __init__(self, text: str) -> None:
        self._tokens: list[Token] = tokens_of(text)
        self._index: int = 0
        self._nesting: int = 0
        # The names met, in this order, each once.
        self.names: dict[str, None] = {}

    def parse(self) -> Expression:
        if self._token().kind is Kind.END:
            return Literal(Sort.CONDITION, True)
        first = self._token()
        condition = self._disjunction()
        if self._token().kind is not Kind.END:
            is_complete = condition.sort is Sort.CONDITION
            self._refuse("AND, OR or the end" if is_complete else "an operator or the end")
        return _as_condition(condition, first)

    def _disjunction(self) -> Expression:
        first = self._token()
        operands = [self._conjunction()]
        while self._take(Kind.OR):
            _as_condition(operands[-1], first)
            first = self._token()
            operands.append(_as_condition(self._conjunction(), first))
        return operands[0] if len(operands) == 1 else Or(operands)

    def _conjunction(self) -> Expression:
        first = self._token()
        operands = [self._negation()]
        while self._take(Kind.AND):
            _as_condition(operands[-1], first)
            first = self._token()
            operands.append(_as_condition(self._negation(), first))
        return operands[0] if len(operands) == 1 else And(operands)

    def _negation(self) -> Expression:
        if self._token().kind is not Kind.NOT:
            return self._predicate()
        self._enter()
        first = self._token()
        operand = _as_condition(self._negation(), first)
        self._nesting -= 1
        return Not(operand)

    def _predicate(self) -> Expression:
        first = self._token()
        left = self._sum()
        kind = self._token().kind
        if kind is Kind.EQUAL or kind is Kind.UNEQUAL:
            self._index += 1
            return Equality(left, self._sum(), kind is Kind.UNEQUAL)
        if kind in _ORDERS:
            self._index += 1
            wanted, or_same = _ORDERS[kind]
            return Comparison(left, self._sum(), wanted, or_same)
        if self._take(Kind.IS):
            is_negated = self._take(Kind.NOT)
            self._expect(Kind.NULL, "NULL" if is_negated else "NULL or NOT NULL")
            return IsNull(left, is_negated)
        is_negated = self._take(Kind.NOT)
        if self._take(Kind.BETWEEN):
            low = self._sum()
            self._expect(Kind.AND, "AND and the upper bound of BETWEEN")
            return Between(left, low, self._sum(), is_negated)
        condition: Expression
        if self._take(Kind.IN):
            condition = In(left, self._items())
        elif self._take(Kind.LIKE):
            condition = self._like(left, first)
        elif is_negated:
            self._refuse("BETWEEN, IN or LIKE")
        else:
            return left
        return Not(condition) if is_negated else condition

    def _like(self, left: Expression, first: Token) -> Expression:
        if left.sort in {Sort.NUMBER, Sort.CONDITION}:
            raise SelectorError("a name or a string before LIKE", first.position, left.sort.value)
        pattern = self._expect(Kind.STRING, "a pattern in single quotes")
        escape: str | None = None
        if self._take(Kind.ESCAPE):
            token = self._expect(Kind.STRING, "a character in single quotes")
            escape = token.text
            if len(escape) != 1:
                raise SelectorError("one escape character", token.position, quoted(escape))
        compiled = like_pattern(pattern.text, escape)
        if compiled is None:
            raise SelectorError(
                "a character after the escape", pattern.end, "the end of the pattern"
            )
        return Like(left, compiled)

    def _items(self) -> list[object]:
        self._expect(Kind.OPEN, "'(' and the items of IN")
        items = [self._item()]
        while self._take(Kind.COMMA):
            if len(items) == IN_ITEMS_MAX:
                position = self._token().position
                raise SelectorError(f"at most {IN_ITEMS_MAX} items of IN", position, "more")
            items.append(self._item())
        self._expect(Kind.CLOSE, "',' or ')'")
        return items

    def _item(self) -> object:
        first = self._token()
        if first.kind not in _ITEM_BEGINNINGS:
            self._refuse("a string, a number, TRUE or FALSE")
        item = self._signed()
        if not isinstance(item, Literal):
            raise SelectorError("a string, a number, TRUE or FALSE", first.position, "a name")
        return item.value

    def _sum(self) -> Expression:
        return self._calculation(_ADDITIVE)

    def _calculation(self, choice: dict[Kind, Operator]) -> Expression:
        is_sum = choice is _ADDITIVE
        first = self._token()
        operands = [self._calculation(_MULTIPLICATIVE) if is_sum else self._signed()]
        operators: list[Operator] = []
        while self._token().kind in choice:
            _as_number(operands[-1], first)
            operators.append(choice[self._token().kind])
            self._index += 1
            first = self._token()
            operand = self._calculation(_MULTIPLICATIVE) if is_sum else self._signed()
            operands.append(_as_number(operand, first))
        return Calculation(operands, operators) if operators else operands[0]

    def _signed(self) -> Expression:
        is_signed = False
        is_negative = False
        while self._token().kind is Kind.PLUS or self._token().kind is Kind.MINUS:
            is_signed = True
            is_negative = is_negative != (self._token().kind is Kind.MINUS)
            self._index += 1
        first = self._token()
        operand = self._operand()
        if not is_signed:
            return operand
        _as_number(operand, first)
        if isinstance(operand, Literal):
            value = calculate(Operator.SUBTRACT, 0, operand.value) if is_negative else operand.value
            return Literal(Sort.NUMBER, value)
        return Signed(operand, is_negative)

    def _operand(self) -> Expression:
        token = self._token()
        kind = token.kind
        if kind is Kind.OPEN:
            self._enter()
            operand = self._disjunction()
            self._expect(Kind.CLOSE, "an operator or ')'")
            self._nesting -= 1
            return operand
        if kind is Kind.NAME:
            self.names[token.text] = None
            self._index += 1
            return Name(token.text)
        literal: Literal
        if kind is Kind.STRING:
            literal = Literal(Sort.TEXT, token.text)
        elif kind is Kind.NUMBER:
            literal = Literal(Sort.NUMBER, token.number)
        elif kind is Kind.TRUE or kind is Kind.FALSE:
            literal = Literal(Sort.CONDITION, kind is Kind.TRUE)
        elif kind is Kind.NULL:
            # The usual mistake is `x = NULL`.
            self._refuse("a value (IS NULL asks for its absence)")
        else:
            self._refuse("a value")
        self._index += 1
        return literal

    def _token(self) -> Token:
        return self._tokens[self._index]

    def _take(self, kind: Kind) -> bool:
        if self._tokens[self._index].kind is not kind:
            return False
        self._index += 1
        return True

    def _expect(self, kind: Kind, expected: str) -> Token:
        token = self._token()
        if token.kind is not kind:
            self._refuse(expected)
        self._index += 1
        return token

    def _enter(self) -> None:
        self._nesting += 1
        if self._nesting > NESTING_MAX:
            raise SelectorError(
                f"at most {NESTING_MAX} levels of parentheses and NOT",
                self._token().position,
                "more",
            )
        self._index += 1

    def _refuse(self, expected: str) -> NoReturn:
        token = self._token()
        found = token.kind.value
        if token.kind in {Kind.NAME, Kind.STRING, Kind.NUMBER}:
            found = f"{found} {quoted(token.text)}"
        raise SelectorError(expected, token.position, found)


def _as_condition(expression: Expression, first: Token) -> Expression:
    """`first` is where the expression begins."""
    if expression.sort in {Sort.NUMBER, Sort.TEXT}:
        raise SelectorError(Sort.CONDITION.value, first.position, expression.sort.value)
    return expression


def _as_number(expression: Expression, first: Token) -> Expression:
    if expression.sort in {Sort.CONDITION, Sort.TEXT}:
        raise SelectorError(Sort.NUMBER.value, first.position, expression.sort.value)
    return expression
