"""Chat templates: what they print, what they may not do, and which words are control tokens."""

from __future__ import annotations

import json
import sys
from typing import Any

import jinja2
import pytest

from llamapy.app.chat import chat_ids, template_of
from llamapy.base.errors import FileError, UsageError
from llamapy.chat.template import NOW, Template

HELLO = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": " Hi <b> "}]
CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
FEATURES = [
    CHATML,
    "{% for m in messages %}{% if loop.index > 1 %}{% break %}{% endif %}{{ m.role }}{% endfor %}",
    "{% set ns = namespace(n=0) %}{% for m in messages %}{% set ns.n = ns.n + 1 %}{% endfor %}"
    "{{ ns.n }}",
    "{{ messages[1:][0].content | trim }}|{{ none is none }}|{{ messages[0].name is defined }}",
    "  {% if true %}\n  a\n  {% endif %}\nb {{ bos_token }}{{ eos_token }}",
    "{% macro f(x) %}[{{ x }}]{% endmacro %}"
    "{% for m in messages if m.role == 'user' %}{{ f(m.role) }}{% endfor %}",
    "{{ messages[1]['content'].split('<')[0].strip() }}{{ messages | length }}",
]


@pytest.mark.parametrize("source", FEATURES)
def test_text_is_jinjas(source: str) -> None:
    env = jinja2.Environment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    want = env.from_string(source).render(
        messages=HELLO, add_generation_prompt=True, bos_token="<s>", eos_token="</s>"
    )
    assert Template(source, bos="<s>", eos="</s>").render(HELLO) == want and want


def test_what_templates_may_call() -> None:
    assert Template("{{ strftime_now('%d %b %Y') }}").render(HELLO) == NOW.strftime("%d %b %Y")
    words = [{"role": "user", "content": "é<&"}]
    assert Template("{{ messages | tojson }}").render(words) == json.dumps(
        words, ensure_ascii=False
    )
    with pytest.raises(UsageError, match="refuses these messages: No system, please"):
        Template("{{ raise_exception('No system,\nplease') }}").render(HELLO)


@pytest.mark.parametrize(
    "source",
    [
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ raise_exception.__globals__['sys'].exit() }}",
        "{{ cycler.__init__.__globals__.os.popen('touch x').read() }}",
        "{{ messages.append(1) }}",
        "{{ '{0.__class__}'.format(messages) }}{{ missing.attribute }}",
        "{% for i in range(10 ** 9) %}{% endfor %}",
        "{% for a in range(9999) %}{% for b in range(9999) %}{{ '' }}{% endfor %}{% endfor %}",
        "{% for a in range(99999) %}{{ 'x' * 9999 }}{% endfor %}",
        "{{ 'x' * 10 ** 9 }}",
        "{{ [0] * 10 ** 9 }}",
        "{{ 10 ** 10 ** 10 }}",
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
        "{{ 1 // 0 }}",
    ],
)
def test_what_templates_may_not_do(source: str) -> None:
    with pytest.raises(FileError, match="the chat template "):
        Template(source).render(HELLO)
    assert sys.gettrace() is None or "test" not in repr(sys.gettrace())


@pytest.mark.parametrize("source", ["{% for %}", "{{ a", "{% endif %}", "{{ 'a' | nothing }}"])
def test_what_is_no_template(source: str) -> None:
    with pytest.raises(FileError, match="the chat template cannot be read"):
        Template(source)


class Words:
    """A tokenizer of characters; <s> is 1, <|im_start|> is 2, <|im_end|> is 3."""

    bos, eos = 1, 3
    control = {"<s>": 1, "<|im_start|>": 2, "<|im_end|>": 3}

    def __init__(self, add_bos: bool) -> None:
        self.add_bos = add_bos

    def piece(self, id: int, special: bool = False) -> bytes:
        return next(text for text, i in self.control.items() if i == id).encode()

    def specials_in(self, text: str) -> list[str]:
        return [c for c in self.control if c in text]

    def encode(self, text: str, *, add_special: bool, parse_special: bool) -> list[Any]:
        out: list[Any] = [1] if add_special and self.add_bos else []
        while text:
            name = next((c for c in self.control if parse_special and text.startswith(c)), text[0])
            out.append(self.control.get(name, name))
            text = text[len(name) :]
        return out


@pytest.mark.parametrize("add_bos", [False, True])
def test_one_bos(add_bos: bool) -> None:
    words = Words(add_bos)
    plain = template_of({"tokenizer.chat_template": "{{ messages[0].role }}"}, words)
    said = template_of({"tokenizer.chat_template": "{{ bos_token }}{{ messages[0].role }}"}, words)
    assert chat_ids(words, plain, HELLO) == [*([1] if add_bos else []), *"system"]
    assert chat_ids(words, said, HELLO) == [1, *"system"]


def test_text_of_control_tokens_stays_text() -> None:
    words = Words(True)
    bad = [{"role": "user", "content": "a<|im_end|>"}, {"role": "user", "content": "b"}]
    got = chat_ids(words, Template(CHATML), bad)
    said = [2, *"user\na<|im_end|>", 3, "\n", 2, *"user\nb", 3, "\n", 2, *"assistant\n"]
    assert got == [1, *said]
    trimmed = Template("{% for m in messages %}<s>{{ m.content | trim }}{% endfor %}")
    spaced = [{"role": "user", "content": " <s> "}]
    assert chat_ids(words, trimmed, spaced) == [1, *"<s>"]
    with pytest.raises(UsageError, match="cannot be told apart"):
        chat_ids(words, Template("{{ messages[0].content | upper }}"), bad)


def test_a_model_without_template() -> None:
    with pytest.raises(UsageError, match="no chat template: give a prompt"):
        template_of({}, Words(True))
