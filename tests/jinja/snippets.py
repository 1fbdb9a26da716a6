"""Small templates for make.py: expressions, each rendered as {{ ... }} with VARIABLES, and whole snippets."""

VARIABLES = {
    "name": "World", "empty": "", "n": 7, "zero": 0, "neg": -3, "x": 2.5, "yes": True, "no": False, "nothing": None,
    "list": [3, 1, 2], "words": ["banana", "Apple", "cherry"], "none_list": [], "nested": [[1, 2], [3, [4]]],
    "d": {"b": 1, "a": 2, "items": "own", "key with space": [1]}, "e": {}, "text": "  The quick\tbrown\n fox  ",
    "uni": "Größe ŉ 日本語 кот 😀", "quote": "it's", "both": "it's \"so\"", "html": "<a href=\"x\">'&'</a>",
    "users": [{"name": "bo", "age": 30, "on": True}, {"name": "Al", "age": 25, "on": False}, {"name": "cy", "age": 35}],
    "big": 9007199254740993, "lines": "one\r\ntwo\nthree\x0bfour\n", "deep": {"a": {"b": [10, {"c": "end"}]}}, "f": [1.0, 1e16, 1e-5, 0.1, 123456.789, -0.0],
}

EXPRESSIONS = """
name
empty
n
x
yes
no
nothing
missing
list
d
e
nested
words
uni
f
[uni, quote, both, html]
['a', 1, 2.0, true, none, [], {}, ()]
(1,)
(1, 2)
()
1, 2
{'a': 1, 2: 'b', none: [1], true: 0.5, (1, 2): 3}
{1: 'a', true: 'b', 1.0: 'c'}
'a' 'b' "c"
'\\n\\t\\\\ \\'q\\' \\x41 \\u00e9 \\U0001F600 \\101 \\q'
"it's"
'\\x00\\x1f\\x7f' | list
[ '\\x00\\x1f\\x7f\\xa0\\xad\\u200b\\u2028\\ufeff\\U000e0001\\u0378' ]
1_000
0x1F + 0o17 + 0b11
1e3
1.5e-7
12.0
0.1 + 0.2
1/3
7 // 2
-7 // 2
7 // -2
-7 % 3
7 % -3
7.5 // 2
-7.5 % 2
7.5 % -2
2 ** 10
2 ** -1
2 ** 0.5
2 ** 3 ** 2
-2 ** 2
(-2) ** 3
0 ** 0
10 / 2
10 / 4
1 / 0
1 // 0
1 % 0
1.0 / 0
0 ** -1
9223372036854775807
-9223372036854775807 - 1
big + 1
big == 9007199254740992.0
3 * 'ab'
'ab' * 0
'ab' * -1
[1, 2] * 2
2 * (1,)
true + true
true * 3
'a' + 'b'
'a' + 1
1 + 'a'
[1] + [2]
(1,) + (2,)
[1] + (2,)
'a' - 'b'
none + 1
missing + 1
1 + missing
'a' + missing
'a' ~ 1 ~ none ~ 2.0 ~ true ~ [1] ~ missing
1 ~ 2 + 3
1 + 2 ~ 3
-n
+n
- -n
-x
-true
-'a'
-missing
not n
not zero
not not 'a'
not missing
n and 0 and 1
n or 0
0 or '' or 'last'
'' and 1
missing or 'else'
none or false
1 < 2
1 < 2 < 3
1 < 3 < 2
3 > 2 > 1 == true
1 == 1.0
1 == true
'1' == 1
[1, 2] == [1, 2]
[1, 2] == (1, 2)
{'a': 1, 'b': 2} == {'b': 2, 'a': 1}
{'a': 1} == {'a': 1.0}
none == none
missing == missing
missing == none
missing != 1
missing < 1
'a' < 'b'
'Z' < 'a'
'ä' > 'z'
[1, 2] < [1, 3]
[1] < [1, 0]
(1, 'a') < (1, 'b')
1 < 'a'
none < 1
'a' in 'abc'
'' in 'abc'
1 in 'abc'
1 in [1, 2]
1.0 in [1, 2]
'a' in {'a': 1}
'z' not in {'a': 1}
1 not in [1]
none in [none]
missing in [1]
1 in missing
1 in 5
[] in {'a': 1}
'x' in none
'yes' if n else 'no'
'yes' if zero else 'no'
'yes' if zero
('yes' if zero) is defined
1 if 0 else 2 if 0 else 3
list[0]
list[-1]
list[3]
list[3] is defined
list['a']
list.0
list.1
list[true]
list[1.0]
name[0]
name[-1]
name[9]
uni[2]
uni[-1]
uni | length
d['b']
d.b
d.a
d.items is callable
d['items']
d['keys'] is callable
d.missing
d['missing']
d.missing.more
d['key with space'][0]
deep.a.b[1].c
deep['a']['b'][0]
missing.x
missing['x']
missing()
n.x
n['x']
none.x
nested[1][1][0]
list[:]
list[1:]
list[:-1]
list[::-1]
list[::2]
list[5:]
list[-2:]
list[2:0]
list[2:0:-1]
list[:0:-1]
name[1:3]
name[::-1]
name[:2] ~ name[2:]
uni[2:6]
uni[::-1]
uni[-3:]
(1, 2, 3)[1:]
range(10)[2:8:3]
range(10)[::-2]
list[none:2]
list['a':]
list[::0]
d[1:]
n[1:]
missing[1:]
d.items() | list
d.keys() | list
d.values() | list
d.items()
d.keys()
d.values()
d.items() | length
d.items()[0] is defined
d.get('b')
d.get('z')
d.get('z', 5)
d.get([])
d.copy() == d
d.update({})
d.pop('a')
d.update is defined
d.clear is defined
list.append(1)
list.append is defined
list.sort()
list.index(2)
list.index(9)
list.count(1)
list.copy()
(1, 2, 1).count(1)
(1, 2, 1).index(2)
e.items() | list
text.strip()
text.lstrip()
text.rstrip()
'xxaxx'.strip('x')
'xxaxx'.lstrip('x')
'xxaxx'.rstrip('x')
'abcXcba'.strip('abc')
'ßéß'.strip('ß')
'a'.strip('')
'\\u3000a\\xa0'.strip()
text.strip(none)
text.split()
text.split(none, 1)
text.rsplit(none, 1)
'a,b,,c'.split(',')
'a,b,,c'.split(',', 1)
'a,b,,c'.split(',', maxsplit=2)
'a,b,,c'.rsplit(',', 1)
'a,b,,c'.rsplit(',')
''.split(',')
''.split()
'  a  b '.split(none, 1)
' a  b  '.rsplit(none, 1)
'abc'.split('')
'a</think>b</think>c'.split('</think>')[-1]
'a'.split('</think>')[0]
lines.splitlines()
lines.splitlines(true)
'a\\n\\nb\\n'.splitlines()
''.splitlines()
'Hello'.startswith('He')
'Hello'.startswith(('x', 'H'))
'Hello'.startswith('l', 2)
'Hello'.startswith('l', 2, 3)
'Hello'.startswith('')
'Hello'.startswith('', 9)
'Hello'.endswith('lo')
'Hello'.endswith(('a', 'o'))
'Hello'.endswith('l', 0, -1)
'Hello'.startswith(1)
'Hello'.startswith(['H'])
uni.upper()
uni.lower()
uni.title()
uni.capitalize()
uni.swapcase()
'ΑΣ ΑΣΑ Σ Σ.'.lower()
'straße ǆ ﬁ'.upper()
'ǆ ﬁ straße'.title()
'ǆabc'.capitalize()
'İI'.lower()
'they\\'re bill\\'s'.title()
'they\\'re bill\\'s-x (y) [z]' | title
'hELLO wORLD' | capitalize
'hello_world foo' | title
'ßa' | title
'banana'.replace('a', 'o')
'banana'.replace('a', 'o', 2)
'banana'.replace('an', '')
'abc'.replace('', '-')
'abc'.replace('', '-', 2)
'äb'.replace('', '.')
'a'.replace(1, 2)
'-'.join(['a', 'b'])
'-'.join('abc')
'-'.join([1, 2])
'-'.join([])
'-'.join({'x': 1, 'y': 2})
'banana'.find('na')
'banana'.find('na', 3)
'banana'.find('na', 3, 5)
'banana'.find('x')
'日本語日本'.find('本', 2)
'banana'.rfind('na')
'banana'.index('n')
'banana'.index('x')
'banana'.rindex('n')
'banana'.count('a')
'banana'.count('ana')
'banana'.count('')
'banana'.count('a', 2)
'banana'.count('a', -3, -1)
'abc'.isalpha()
'abc1'.isalnum()
'12'.isdigit()
'1²'.isdigit()
'1²'.isdecimal()
'½'.isnumeric()
'日本'.isalpha()
''.isdigit()
' \\t'.isspace()
'Ab'.istitle()
'AB'.isupper()
'AB1'.isupper()
'ab'.islower()
'1'.islower()
'é'.isascii()
'a b'.isprintable()
'a.b.c'.partition('.')
'a.b.c'.rpartition('.')
'abc'.partition('.')
'abc'.rpartition('.')
'prefix-x'.removeprefix('prefix-')
'x.txt'.removesuffix('.txt')
'x'.removesuffix('')
'ab'.center(7, '*')
'ab'.center(6)
'abc'.center(6, '*')
'ab'.ljust(5) ~ '|'
'ab'.rjust(5, '日')
'42'.zfill(5)
'-42'.zfill(5)
'a\\tb'.expandtabs(4)
'x'.nothing
'x'.nothing is defined
'x'.upper is callable
'{} and {}'.format(1, 'b')
'{1} {0}'.format('a', 'b')
'{a}-{b[0]}-{c.x}'.format(a=1, b=[2], c={'x': 3})
'{:>5}|{:<5}|{:^5}|{:*^5}'.format('a', 'b', 'c', 'd')
'{:05d}|{:+d}|{:x}|{:X}|{:b}|{:,}'.format(42, 42, 255, 255, 5, 1234567)
'{:.2f}|{:8.3f}|{:e}|{:g}|{:%}'.format(3.14159, 2.5, 12345.678, 0.0001, 0.25)
'{!r} {!s}'.format('a', 'b')
'{{}} {}'.format(1)
'{} {}'.format(1)
'{'.format(1)
'{:.3}'.format('abcdef')
'{:>8}'.format(2.5)
'{} {1}'.format(1, 2)
'%s is %d' % ('x', 5)
'%s' % 'a'
'%s' % [1, 2]
'%r' % 'a'
'%5s|%-5s|%05d|%.2f|%+d|%x|%o|%e|%g' % ('a', 'b', 42, 3.14159, 5, 255, 8, 12345.6, 1e-7)
'%(a)s-%(b)03d' % {'a': 1, 'b': 2}
'%d%%' % 50
'%s %s' % ('a',)
'%s' % ('a', 'b')
'no' % ()
'no' % 1
'no' % {}
'no' % [1]
'no' % 'a'
'no' % missing
'no' % none
'%d' % 'x'
'%c' % 'x'
'%z' % 1
'%d' % 3.9
text | trim
'xxaxx' | trim('x')
'xax' | trim(chars='x')
5 | trim
none | trim
missing | trim
list | length
list | count
name | length
e | length
missing | length
5 | length
d.items() | length
name | upper
name | lower
5 | upper
none | upper
missing | upper
words | join
words | join(', ')
list | join('-')
list | join(0)
users | join(', ', attribute='name')
[1, none, 'a', 2.0, missing] | join('|')
missing | join
name | join('.')
5 | join
name | replace('o', '0')
name | replace('o', '0', 1)
'a1a' | replace(1, 2)
'aaa' | replace('a', 'b', count=2)
missing | default('x')
missing | default
missing | d('x')
none | default('x')
none | default('x', true)
'' | default('x', true)
'' | default('x', boolean=true)
0 | default('x')
missing.x | default('y')
d.zz | default('y')
list | first
list | last
none_list | first
none_list | last is defined
name | first
name | last
missing | first is defined
d | first
name | list
d | list
5 | list
none | list
missing | list
5 | string
none | string
[1] | string
'7' | int
'7.9' | int
'abc' | int
'abc' | int(5)
'ff' | int(base=16)
'0x1f' | int(0, 16)
' 12 ' | int
'1_000' | int
'1__0' | int
7.9 | int
-7.9 | int
none | int
true | int
[] | int(-1)
'-5' | int
'+5' | int
'1e3' | int
missing | int
'1.5' | float
'abc' | float
'abc' | float(2.5)
'inf' | float
'nan' | float
'1e400' | float
7 | float
none | float
'.5' | float
'5.' | float
words | map('upper') | list
words | map('length') | list
words | map('replace', 'a', 'o') | join(' ')
words | map('default', 'x') | list
users | map(attribute='name') | list
users | map(attribute='on') | list
users | map(attribute='on', default='?') | list
[[1, 2], [3, 4]] | map(attribute=1) | list
[{'a': {'b': 1}}] | map(attribute='a.b') | list
[{'a': [5, 6]}] | map(attribute='a.1') | list
[{'a': {'b': 1}}, {}] | map(attribute='a.b') | list
words | map | list
words | map('nofilter') | list
none_list | map('nofilter') | list
words | map('upper') | length
(words | map('upper')) is iterable
(words | map('upper')) is sequence
[1, 2, 3, 4] | select('odd') | list
[1, 2, 3, 4] | reject('odd') | list
[0, 1, '', 'a', none] | select | list
[0, 1, '', 'a', none] | reject | list
[1, 2, 3] | select('>', 1) | list
[1, 2, 3] | select('gt', 1) | list
['a', 'b'] | select('equalto', 'b') | list
['a', 'b'] | select('in', ['b']) | list
users | selectattr('on') | map(attribute='name') | list
users | rejectattr('on') | map(attribute='name') | list
users | selectattr('on', 'defined') | map(attribute='name') | list
users | selectattr('age', 'gt', 26) | map(attribute='name') | list
users | selectattr('name', 'equalto', 'bo') | list | length
users | selectattr('name', 'equalto', 'bo') | first
users | selectattr('name', 'notest') | list
users | selectattr | list
list | sort
list | sort(reverse=true)
words | sort
words | sort(case_sensitive=true)
users | sort(attribute='age') | map(attribute='name') | list
users | sort(attribute='name') | map(attribute='name') | list
users | sort(attribute='on,name')
[{'a': 1, 'b': 2}, {'a': 1, 'b': 1}, {'a': 0, 'b': 3}] | sort(attribute='a,b')
[1, 'a'] | sort
[1, true, 0.5] | sort
d | sort
'cab' | sort
['b', 'a', 'B', 'A'] | unique | list
['b', 'a', 'B', 'A'] | unique(true) | list
[1, 1.0, true, 2] | unique | list
users | unique(attribute='on') | map(attribute='name') | list
[[1]] | unique | list
list | reverse | list
name | reverse
d | reverse | list
5 | reverse
d | items | list
missing | items | list
5 | items | list
d | dictsort
d | dictsort(reverse=true)
{'b': 1, 'A': 2, 'c': 0} | dictsort
{'b': 1, 'A': 2, 'c': 0} | dictsort(true)
{'b': 1, 'A': 2, 'c': 0} | dictsort(false, 'value')
{'b': 1, 'A': 2} | dictsort(by='other')
d | tojson
d | tojson(indent=2)
deep | tojson(indent=4)
e | tojson(indent=2)
[[], {}, [1]] | tojson(indent=1)
list | tojson(indent=0)
list | tojson(indent='--')
d | tojson(sort_keys=true)
d | tojson(separators=(',', ':'))
d | tojson(indent=2, separators=(', ', ' = '))
uni | tojson
uni | tojson(ensure_ascii=true)
[both, html, '\\x00\\x1f\\x7f\\b\\f\\n\\r\\t/'] | tojson
['\\x7f'] | tojson(ensure_ascii=true)
[1.0, 1e16, 1e-7, 0.1, true, none, 1/3] | tojson
('nan' | float) | tojson
('inf' | float) | tojson
(1, 2) | tojson
{1: 2, none: 3, true: 4, 1.5: 5} | tojson
{(1, 2): 3} | tojson
missing | tojson
range(3) | tojson
[missing] | tojson
list | map('string') | tojson
'a\\nb\\n\\nc' | indent
'a\\nb\\n\\nc' | indent(2, true)
'a\\nb\\n\\nc' | indent(2, first=true, blank=true)
'a\\nb' | indent('> ')
'a\\n' | indent(2)
5 | indent
-5 | abs
-2.5 | abs
true | abs
'a' | abs
2.5 | round
3.5 | round
2.675 | round(2)
2.5 | round(0, 'ceil')
2.4 | round(method='ceil')
-2.5 | round(0, 'floor')
1234.567 | round(1, 'floor')
7 | round
42.55 | round(1)
1e20 | round
'a' | round
2.5 | round(method='up')
list | sum
[1, 2.5] | sum
users | sum(attribute='age')
list | sum(start=10)
['a'] | sum
[[1], [2]] | sum(start=[])
none_list | sum
list | min
list | max
words | min
words | max
words | max(case_sensitive=true)
users | min(attribute='age')
none_list | max is defined
[1, 'a'] | max
[1, 2, 3, 4, 5] | batch(2) | list
[1, 2, 3, 4, 5] | batch(2, 0) | list
[1, 2, 3, 4, 5] | slice(3) | list
[1, 2, 3, 4, 5] | slice(3, 'x') | list
html | escape
html | e
none | e
html | safe
(html | safe) + '<b>'
'<b>' + (html | safe)
(html | safe) ~ '<b>'
('<i>' | safe) * 2
[html | e, 'x']
('%s-%s' | safe) % ('<', 1)
('%s' | safe) % '<'
'%s' % ('<' | safe)
('%s %d' | safe) | format('<', 5)
('{} {x!r}' | safe).format('<', x="'")
('{}' | safe).format('<' | safe)
('a-b' | safe).replace('-', '<')
('a-b' | safe) | replace('-', '<')
('a-b' | safe).split('-')
('a-b' | safe).partition('-')
('<' | safe).join(['<', '>' | safe, 1])
['<', 'a'] | join('<' | safe)
('<a>' | safe)[1:] + '<'
('<a>' | safe)[0] + '<'
('<a>' | safe | upper) + '<'
('a' | safe).center(5, '<')
('<' | safe) == '<'
('<' | safe) is escaped
('<' | safe) is string
'<' | e | e
'<' | e | forceescape
('<' | safe) | tojson
('a\nb' | safe | indent(2)) + '<'
('a' | safe | title) + '<'
('a' | safe | string) + '<'
('<a>' | safe) | list
('<' | safe) + 1
'a long sentence here' | safe | truncate(9, end='<')
'%s-%s' | format('a', 1)
'%(x)s' | format(x=5)
'%d' | format('a')
'The quick  brown-fox it_s' | wordcount
'ab' | center(6) ~ '|'
'a long sentence to be cut here' | truncate(12)
'a long sentence to be cut here' | truncate(12, true)
'a long sentence to be cut here' | truncate(12, true, '!')
'short' | truncate(3)
'foo bar baz qux' | truncate(9, leeway=0)
name | nofilter
name is notest
name | upper | lower | length
-5 | abs
-list[0]
name.upper() | lower
(name ~ 'x') | length
name ~ 'x' | length
missing is defined
missing is undefined
name is defined
d.b is defined
d.zz is defined
d.zz is not defined
missing.x is defined
none is none
n is none
n is not none
name is string
n is string
d is mapping
list is mapping
list is iterable
name is iterable
n is iterable
d is iterable
missing is iterable
none is iterable
list is sequence
name is sequence
d is sequence
n is sequence
missing is sequence
d.items() is sequence
range(3) is sequence
range(3) is iterable
n is number
x is number
true is number
name is number
n is integer
true is integer
x is integer
x is float
n is float
true is boolean
n is boolean
true is true
1 is true
false is false
0 is false
none is false
3 is odd
3 is even
-3 is odd
2.0 is even
'a' is odd
9 is divisibleby 3
9 is divisibleby(2)
9 is divisibleby 0
n is eq 7
n is equalto(7)
n is == 7
n is ne 7
n is lt 8
n is gt 8
n is ge 7
n is le 6
n is lessthan 8
n is greaterthan 8
'a' is lt 1
1 is in [1, 2]
5 is in([1, 2])
'a' is in 'abc'
true is sameas true
1 is sameas true
none is sameas none
list is sameas list
list is sameas [3, 1, 2]
range is callable
name is callable
missing is callable
'a' is lower
'A' is lower
'A' is upper
'a1' is upper
'upper' is filter
'nope' is filter
'odd' is test
name is escaped
n is not odd
n is odd and n is not even
not n is odd
n is divisibleby 7 and true
range(5)
range(2, 5)
range(0, 10, 3)
range(5, 0, -2) | list
range(3) | list
range(0) | list
range(1, 2, 0)
range(200000)
range('a')
range(3) == range(3)
range(3) == [0, 1, 2]
range(10)[3]
range(10)[-1]
3 in range(5)
range(5) | sum
dict(a=1, b=2)
dict({'a': 1}, b=2)
dict([('a', 1), ['b', 2]])
dict([1])
dict()
namespace(a=1).a
namespace({'a': 2}).a
namespace(a=1).b
namespace(a=1)['a']
namespace(_a=1).a
namespace(a=1) is mapping
cycler('a', 'b').next()
joiner('-')()
raise_exception('No good: ' ~ name)
raise_exception()
strftime_now('no fields')
strftime_now('100%%')
strftime_now('')
strftime_now('%Y') | length
list(1)
name()
n()
'a'.upper(1)
'a'.replace('b')
'a' | default(1, 2, 3)
'a' | upper(1)
'a' | default(other=1)
[*list]
dict(**{'a': 1})
range(*[1, 4]) | list
range(*(1, 4), **{})
'{a}{b}'.format(**d)
'{}{}'.format(*list)
a b
1 +
(1
[1, 2
{'a' 1}
{'a': 1
'abc
a.
a.'b'
a[
f(a=1, 2)
f(a=1, a=2)
f(**a, b)
x is
x |
x | 5
1 is odd is even
# 5
$x
x = 5
1 if
not
.5
1.2.3
a..b
@
a ? b
a!
'a' in
0777
1__0
""".strip("\n").split("\n")

SNIPPETS = r"""
{{ name }}
---
Hello {{ name }}!
---
a
{% if yes %}
b
{% endif %}
c
---
a
   {% if yes %}   
b
   {% endif %}
c
---
a
   {%- if yes -%}   
  b  
   {%- endif -%}  
c
---
a
   {%+ if yes +%}
  b
   {%+ endif +%}
c
---
  {{- name -}}  
x
---
a  {{- name }}  b
---
a {{ name -}}
   b
---
a
{#- comment -#}
b
---
a
{# comment #}
b
---
a
   {# comment
of lines #}
b
---
a {# c #} b
---
{#+ c +#}
b
---
{##}{#-#}x
---
{% if yes %}{% endif %}
---
  {% if yes %}x{% endif %}
---
x  {% if yes %}x{% endif %}
---
{% if yes %}

a

{% endif %}

b
---
{%if yes%}a{%endif%}
---
{%-if yes-%} a {%-endif-%}
---
{% raw %}{{ name }} {% if %}{# #}{% endraw %}
---
a
  {% raw %}
  {{ x }}
  {% endraw %}
b
---
a {%- raw -%}  {{ x }}  {%- endraw -%}  b
---
{% raw %}a{% endraw +%}
b
---
{%- raw %} x {%+ endraw %} y
---
{% raw %}never ends
---
{# never ends
---
{% if yes
---
{{ name
---
{{ name }
---
{{ '}}' }}{{ "%}" }}{{ {'a': {'b': 1}} }}
---
{{ {'a': 1}}}
---
{{ {} }}
---
{ { } } {{ '{{' }} } }} %} #}
---
{% if yes %}a{% elif no %}b{% else %}c{% endif %}
---
{% if no %}a{% elif yes %}b{% else %}c{% endif %}
---
{% if no %}a{% elif zero %}b{% elif empty %}b2{% else %}c{% endif %}
---
{% if no %}a{% endif %}
---
{% if missing %}a{% else %}b{% endif %}
---
{% if yes %}a
---
{% endif %}
---
{% else %}
---
{% if yes %}{% endfor %}
---
{% if yes %}a{% else %}b{% else %}c{% endif %}
---
{% if yes: %}a{% endif %}
---
{% if 1, 2 %}a{% endif %}
---
{% if %}a{% endif %}
---
{% for i in list %}{{ i }}{% endfor %}
---
{% for i in list %}{{ i }}{% else %}none{% endfor %}
---
{% for i in none_list %}{{ i }}{% else %}none{% endfor %}
---
{% for i in missing %}{{ i }}{% else %}none{% endfor %}
---
{% for i in n %}{{ i }}{% endfor %}
---
{% for i in none %}{{ i }}{% endfor %}
---
{% for c in uni %}[{{ c }}]{% endfor %}
---
{% for k in d %}{{ k }};{% endfor %}
---
{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}
---
{% for k, v in d | dictsort %}{{ k }}={{ v }};{% endfor %}
---
{% for (a, b) in [(1, 2), [3, 4]] %}{{ a }}{{ b }};{% endfor %}
---
{% for a, (b, c) in [(1, (2, 3))] %}{{ a }}{{ b }}{{ c }}{% endfor %}
---
{% for a, b in ['xy', 'zw'] %}{{ a }}-{{ b }} {% endfor %}
---
{% for a, b in [(1, 2, 3)] %}{{ a }}{% endfor %}
---
{% for a, b in [1] %}{{ a }}{% endfor %}
---
{% for i in list %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.depth }}{{ loop.depth0 }};{% endfor %}
---
{% for i in list %}{{ loop.previtem }}<{{ i }}>{{ loop.nextitem }};{% endfor %}
---
{% for i in list %}{{ loop.previtem is defined }}{{ loop.nextitem is defined }}{% endfor %}
---
{% for i in [1, 1, 2, 2, 1] %}{{ loop.changed(i) }} {% endfor %}
---
{% for i in [1, 2, 3, 4] %}{{ loop.cycle('a', 'b', 'c') }}{% endfor %}
---
{% for i in list if i > 1 %}{{ i }}{{ loop.length }}{{ loop.index }}{% else %}none{% endfor %}
---
{% for i in list if i > 5 %}{{ i }}{% else %}none{% endfor %}
---
{% for i in list if loop.first %}{{ i }}{% endfor %}
---
{% for u in users if u.on is defined and u.on %}{{ u.name }}{% endfor %}
---
{% for i in list %}{% if i == 1 %}{% continue %}{% endif %}{{ i }}{% endfor %}
---
{% for i in list %}{% if i == 1 %}{% break %}{% endif %}{{ i }}{% endfor %}
---
{% for i in list %}{% break %}{% else %}none{% endfor %}
---
{% for i in list %}{% for j in list %}{% if j == 1 %}{% break %}{% endif %}{{ i }}{{ j }} {% endfor %}{% endfor %}
---
{% break %}
---
{% continue %}
---
{% for i in list %}{% macro m() %}{% break %}{% endmacro %}{% endfor %}
---
{% for i in [1, 2] %}{% for j in [3, 4] %}{{ loop.index }}{% endfor %}{{ loop.index }};{% endfor %}
---
{% for i in [1, 2] %}{% set outer = loop %}{% for j in [3, 4] %}{{ outer.index }}{{ loop.index }} {% endfor %}{% endfor %}
---
{% for i in [[1, [2, 3]], [4]] recursive %}{% if i is iterable %}({{ loop(i) }}){% else %}{{ i }}:{{ loop.depth }}{% endif %}{% endfor %}
---
{% for n in [{'v': 1, 'c': [{'v': 2, 'c': []}]}, {'v': 3, 'c': []}] recursive %}{{ n.v }}{% if n.c %}[{{ loop(n.c) }}]{% endif %}{% endfor %}
---
{% for i in [1] %}{{ loop([1]) }}{% endfor %}
---
{% for i in list %}{{ loop.nothing }}{% endfor %}
---
{{ loop }}
---
{{ loop.index }}
---
{% for i in range(3) %}{{ i }}{% endfor %}{{ i }}
---
{% for name in list %}{{ name }}{% endfor %}{{ name }}
---
{% for i in list | sort %}{{ i }}{% endfor %}
---
{% for m in list[::-1] %}{{ m }}{% endfor %}
---
{% for i in words | map('upper') %}{{ loop.length }}{{ i }} {% endfor %}
---
{% for i in (1, 2) if false else [] %}{{ i }}{% endfor %}
---
{% for i in ((1, 2) if false else [3]) %}{{ i }}{% endfor %}
---
{% for i in 1, 2, 3 %}{{ i }}{% endfor %}
---
{% for in list %}{% endfor %}
---
{% for i of list %}{% endfor %}
---
{% for i in list %}{{ i }}
---
{% for d.x in list %}{% endfor %}
---
{% for true in list %}{% endfor %}
---
{% set a = 1 %}{{ a }}
---
{% set a = 1, 2 %}{{ a }}
---
{% set a, b = 1, 2 %}{{ a }}{{ b }}
---
{% set a, b = [3, 4] %}{{ a }}{{ b }}
---
{% set (a, b) = (1, 2) %}{{ a }}{{ b }}
---
{% set a, b = 1 %}
---
{% set a, b = [1] %}
---
{% set a %}text {{ name }}{% endset %}[{{ a }}]
---
{% set a | upper %}text {{ name }}{% endset %}[{{ a }}]
---
{% set a | replace('e', 'E') | trim %} text {% endset %}[{{ a }}]
---
{% set a %}
  x
{% endset %}[{{ a }}]
---
{% set name = 'inner' %}{{ name }}
---
{% if yes %}{% set a = 1 %}{% endif %}{{ a }}
---
{% if no %}{% set name = 1 %}{% endif %}{{ name }}
---
{% if no %}{% set zz = 1 %}{% endif %}{{ zz is defined }}
---
{% set a = 1 %}{% for i in list %}{% set a = i %}{{ a }}{% endfor %}{{ a }}
---
{% for i in list %}{{ a is defined }}{% set a = i %}{{ a }}{% endfor %}{{ a is defined }}
---
{% set found = false %}{% for i in list %}{% if i == 1 %}{% set found = true %}{% endif %}{{ found }}{% endfor %}{{ found }}
---
{% set ns = namespace(found=false, n=0) %}{% for i in list %}{% set ns.n = ns.n + i %}{% if i == 1 %}{% set ns.found = true %}{% endif %}{% endfor %}{{ ns.found }}{{ ns.n }}
---
{% set ns = namespace() %}{% set ns.a = 1 %}{% set ns.a, ns.b = 2, 3 %}{{ ns.a }}{{ ns.b }}{{ ns.c }}
---
{% set ns = namespace() %}{% set ns.a %}block{% endset %}{{ ns.a }}
---
{% set ns = namespace() %}{% set ns._a = 1 %}
---
{% set ns = {} %}{% set ns.a = 1 %}
---
{% set missing.a = 1 %}
---
{% set ns = namespace(a=[]) %}{% for i in list %}{% set ns.a = ns.a + [i] %}{% endfor %}{{ ns.a }}
---
{% set true = 1 %}
---
{% set 5 = 1 %}
---
{% set a.b.c = 1 %}
---
{% set a['b'] = 1 %}
---
{% set a %}never
---
{% set %}
---
{% set a = %}
---
{% set x = x + 1 %}{{ x }}
---
{% set list = list + [4] %}{{ list }}{% for i in list %}{{ i }}{% endfor %}
---
{% with a = 1, b = 2 %}{{ a }}{{ b }}{% endwith %}{{ a is defined }}
---
{% with %}{% set q = 1 %}{{ q }}{% endwith %}{{ q is defined }}
---
{% with name = 'a', other = name %}{{ name }}{{ other }}{% endwith %}{{ name }}
---
{% with a, b = (1, 2) %}{{ a }}{{ b }}{% endwith %}
---
{% macro m(a, b=2, c=a) %}[{{ a }},{{ b }},{{ c }}]{% endmacro %}{{ m(1) }}{{ m(1, 3) }}{{ m(1, c=5) }}{{ m(b=7, a=8) }}{{ m() }}
---
{% macro m(a) %}{{ a is defined }}{% endmacro %}{{ m() }}{{ m(none) }}
---
{% macro m() %}x{% endmacro %}{{ m(1) }}
---
{% macro m(a) %}x{% endmacro %}{{ m(b=1) }}
---
{% macro m(a) %}x{% endmacro %}{{ m(1, a=1) }}
---
{% macro m() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, x=3) }}{{ m() }}
---
{% macro m(a) %}{{ a }}{{ varargs | join('-') }}{{ kwargs.z }}{% endmacro %}{{ m(1, 2, 3, z=4) }}
---
{% macro m() %}{{ caller() }}!{% endmacro %}{% call m() %}body {{ name }}{% endcall %}
---
{% macro m(items) %}{% for i in items %}{{ caller(i, x=2) }}{% endfor %}{% endmacro %}{% call(i, x, y=3) m(list) %}<{{ i }}{{ x }}{{ y }}>{% endcall %}
---
{% macro m() %}{{ caller is defined }}{% endmacro %}{{ m() }}
---
{% macro m() %}{{ caller() }}{% endmacro %}{{ m() }}
---
{% macro m() %}x{% endmacro %}{% call m() %}y{% endcall %}
---
{% call 5 %}{% endcall %}
---
{% call name %}{% endcall %}
---
{% macro m(x) %}{{ x }}{% if x > 0 %}{{ m(x - 1) }}{% endif %}{% endmacro %}{{ m(5) }}
---
{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}
---
{% macro m() %}  text  {% endmacro %}[{{ m() | trim }}][{{ m() ~ 'x' }}][{{ m() | length }}]
---
{% macro m() %}{{ name }}{{ later }}{% endmacro %}{% set later = 'L' %}{{ m() }}
---
{% macro m() %}{% set inner = 1 %}{{ inner }}{% endmacro %}{{ m() }}{{ inner is defined }}
---
{% macro m(name) %}{{ name }}{% endmacro %}{{ m('arg') }}{{ name }}
---
{% for i in list %}{% macro m() %}{{ i }}{% endmacro %}{{ m() }}{% endfor %}{{ m is defined }}
---
{% macro a() %}{% macro b() %}b{% endmacro %}{{ b() }}{% endmacro %}{{ a() }}{{ b is defined }}
---
{% if yes %}{% macro m() %}in if{% endmacro %}{% endif %}{{ m() }}
---
{{ m() }}{% macro m() %}late{% endmacro %}
---
{% macro m(a, a) %}{% endmacro %}
---
{% macro m(a=1, b) %}{% endmacro %}
---
{% macro m %}{% endmacro %}
---
{% macro m(a=[1, 2], b={'x': 1}) %}{{ a }}{{ b.x }}{% endmacro %}{{ m() }}{{ m([3]) }}
---
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(*[1]) }}{{ m(**{'a': 2}) }}{{ m.name }}
---
{% macro m() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m }}{% call m(m) %}{% endcall %}
---
{% for i in list %}{{ loop }}{% endfor %}
---
{% for i in list %}{% set a %}x{% if i == 1 %}{% continue %}{% endif %}{% endset %}{{ i }}{{ a }}{% endfor %}
---
{% for i in list %}{% filter upper %}x{% if i == 1 %}{% break %}{% endif %}{% endfilter %}{{ i }}{% endfor %}.
---
{% for i in list %}{{ name }}{% endfor %}{% set name = 1 %}{{ name }}
---
{% set name %}{{ name }}{% endset %}[{{ name }}]
---
{% set name = name ~ '!' %}{{ name }}{% for i in list %}{{ name }}{% set name = i %}{% endfor %}
---
{% for i in list %}{% for j in list %}{{ name }}{% endfor %}{% set name = i %}{% endfor %}
---
{% macro m() %}{{ name }}{% endmacro %}{{ m() }}{% if yes %}{% set name = 1 %}{% endif %}{{ m() }}
---
{% macro m() %}{{ name }}{% endmacro %}{{ m() }}{% if yes %}{% set name = 1 %}{% elif no %}{% set name = 2 %}{% else %}{% set name = 3 %}{% endif %}{{ m() }}
---
{% macro m() %}{{ name }}{% endmacro %}{{ m() }}{% if yes %}{% set name = 1 %}{% elif no %}{% set name = 2 %}{% else %}{{ name }}{% set name = 3 %}{% endif %}{{ m() }}
---
{% with %}{% for i in list %}{{ name }}{% endfor %}{% set name = 2 %}{% endwith %}{{ name }}
---
{% macro m(a=name) %}{% for i in list %}{{ a }}{{ x }}{% endfor %}{% set x = 1 %}{% endmacro %}{{ m() }}
---
{% set f = name.upper %}{{ f() }}
---
{% set fs = {'u': 'abc'.upper} %}{{ fs.u() }}{{ fs['u']() }}
---
{% filter upper %}a {{ name }}{% endfilter %}
---
{% filter replace('a', 'b') | upper %}aaa{% endfilter %}
---
{% filter upper %}{% set q = 1 %}{% endfilter %}{{ q is defined }}
---
{% filter nofilter %}x{% endfilter %}
---
{% print name %}{% print 1, 2 %}
---
{% generation %}abc{% endgeneration %}
---
a{% generation %}{{ uni }}{% endgeneration %}b{% generation %}{% endgeneration %}
---
{% for i in list %}{{ uni }}{% generation %}<{{ i }}>{% endgeneration %}
{% endfor %}
---
{% for i in list %}{%- generation -%}  x{{ loop.index }}  {%- endgeneration -%} . {% endfor %}
---
{% generation %}{% set a = 1 %}{{ a }}{% endgeneration %}{{ a is defined }}
---
{% if no %}{% generation %}abc{% endgeneration %}{% endif %}d
---
{% generation %}abc
---
{% for i in list %}{% generation %}{% break %}{% endgeneration %}{% endfor %}
---
{% generation %}{% for i in list %}{% if i == 1 %}{% break %}{% endif %}{{ i }}{% endfor %}{% endgeneration %}.
---
{% set j = joiner(', ') %}{% for i in list %}{{ j() }}{{ i }}{% endfor %}
---
{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.next() }}{{ c.current }}{{ c.next() }}{{ c.reset() }}{{ c.next() }}
---
{% if missing_filter_guard %}{{ name | nofilter }}{% endif %}ok
---
{% if yes %}{{ name | nofilter }}{% endif %}ok
---
{{ (name | nofilter) if no else 'ok' }}
---
{% if no %}{% for i in list %}{{ i | nofilter }}{% endfor %}{% endif %}ok
---
{% if no %}{{ name is notest }}{% endif %}ok
---
{% nosuchtag %}
---
{% 5 %}
---
{% %}
---
{{ }}
---
{{ a }} {{ "b" ~ }}
---
{% set m = {'x': [1, {'y': 2}]} %}{{ m.x[1].y }}{{ m['x'][0] }}
---
{{ 'a
b' }}
---
{{ "tab	in" }}
---
{{ name
   | upper
   | replace("W",
             "M") }}
---
line 1{{ "\n" }}line 2
---
{{ name }}
{{ name }}

---
trailing newline

---
{% if yes %}x{% endif %}
	y
---
	{% if yes %}tab{% endif %}
---
{% set x = {} %}{{ x.update({'a': 1}) }}
---
{% set x = [] %}{% set _ = x.append(1) %}{{ x }}
---
{{ "é" ~ 'ü' }}{# é #}é
---
{% if name == 'World' and n > 5 or not yes %}1{% endif %}{% if name == 'x' or n > 5 and yes %}2{% endif %}
---
{{ not name == 'World' }} {{ not n in list }} {{ (not n) in list }}
---
{{ 1 if true and false else 2 }}{{ 'a' ~ 'b' if true else 'c' }}
---
{% for k, v in {'a': none, 'b': true}.items() %}{{ k }}:{{ v }},{% endfor %}
---
{{ [users[0].name, users[-1]['age']] }}{{ users[0] }}
---
{{ raise_exception("Conversation roles must alternate") }}
---
{% if raise_exception is defined %}{{ raise_exception('stop ' ~ n) }}{% endif %}
---
{%- set t = "a" -%}
{%- for i in range(2) -%}
    {%- if i == 0 -%} {{ t }} {%- else -%} {{ '-' }} {%- endif -%}
{%- endfor -%}
 end
---
{{ "%s"|format("x") }}{{ "%.1f" % 2.25 }}{{ "%.1f" % 2.35 }}{{ 1e22 }}{{ 1.5e300 * 1e10 }}{{ 123456789012345.6 }}{{ 1e15 }}{{ 0.0001 }}{{ 0.00001 }}
---
{% include 'x' %}
---
{% import 'x' as y %}
---
{% from 'x' import y %}
---
{% extends 'x' %}
---
{% do list.append(1) %}
---
{% trans %}{% endtrans %}
""".removeprefix("\n").removesuffix("\n").split("\n---\n")
