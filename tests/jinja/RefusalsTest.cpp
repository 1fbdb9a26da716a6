// What is said about templates that are wrong, that ask for what is not supported, or that would take all memory, all
// stack or all day.
#include "runtime/jinja/Template.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace mt::tests {
namespace {

using Json = nlohmann::ordered_json;
using jinja::Template;

std::string refusal(std::string_view source, const Json &variables = Json::object()) {
  Result<Template> read = Template::parse(source);
  if (!read)
    return read.status().message();
  Result<jinja::Rendered> rendered = read->render(variables);
  return rendered ? "none" : rendered.status().message();
}

void expect(std::string_view source, std::string_view part, const Json &variables = Json::object()) {
  std::string said = refusal(source, variables);
  EXPECT_NE(said.find(part), std::string::npos)
      << "template: " << source.substr(0, 200) << "\nmessage: " << said << "\nwant: " << part;
}

std::string times(std::string_view text, size_t count) {
  std::string made;
  for (size_t i = 0; i < count; ++i)
    made += text;
  return made;
}

TEST(JinjaRefusals, NameWhatIsNotSupported) {
  for (std::string_view tag : {"include 'a'", "import 'a' as b", "from 'a' import b", "extends 'a'", "block a",
                               "autoescape true", "do x", "trans"})
    expect(fmt::format("a\nb{{% {} %}}", tag),
           fmt::format("line 2: the tag {{% {} %}} is not supported", tag.substr(0, tag.find(' '))));
  for (std::string_view filter : {"attr", "filesizeformat", "groupby", "pprint", "random", "striptags", "urlencode",
                                  "urlize", "wordwrap", "xmlattr", "nosuch"})
    expect(fmt::format("\n\n{{{{ x | {} }}}}", filter),
           fmt::format("line 3: there is no filter {}, or it is not supported", filter));
  expect("{{ x is nosuch }}", "line 1: there is no test nosuch, or it is not supported");
  expect("{% nosuch %}", "line 1: there is no tag {% nosuch %}, or none is open that it ends");
  expect("\n{{ 'a'.encode() }}", "line 2: the method encode of text is not supported");
  expect("{{ '\\N{DASH}' }}", "line 1: the escape \\N in a text is not supported; write the character itself");
  expect("{{ 1234 | round(-2) }}", "a negative precision) is not supported");
  expect("{{ é }}", "line 1: 'é' cannot stand in a tag");
  expect("{{ '{:{}}'.format(1, 2) }}", "a format within a format is not supported");
  expect("{{ [1] | map('string') }}",
         "line 1: an iterator, such as the filter map gives, cannot be printed; use the filter list or join");
  expect("{{ [1] | map('string') | last }}", "use the filter list first");
  expect("{{ range }}", "line 1: a function cannot be printed");
  expect("{{ namespace() }}", "line 1: a namespace cannot be printed");
  expect("{% set x = [] %}{{ x.append(1) }}", "line 1: 'append' is undefined");
}

TEST(JinjaRefusals, KeepGenerationWhereItsTextIsKnown) {
  constexpr std::string_view kGeneration = "{% generation %}x{% endgeneration %}",
                             kSays = "where its text ends up is not known";
  expect(fmt::format("{{% macro m() %}}\n{}{{% endmacro %}}", kGeneration), "line 2: {% generation %} within a macro");
  expect(fmt::format("{{% set a %}}{}{{% endset %}}", kGeneration), kSays);
  expect(fmt::format("{{% filter trim %}}{}{{% endfilter %}}", kGeneration), kSays);
  expect(fmt::format("{{% call m() %}}{}{{% endcall %}}", kGeneration), kSays);
  expect(fmt::format("{{% for a in b recursive %}}{}{{% endfor %}}", kGeneration), kSays);
  expect(fmt::format("{{% generation %}}{}{{% endgeneration %}}", kGeneration), kSays);
}

TEST(JinjaRefusals, NameWhatIsWrong) {
  expect("{% if x %}\n", "line 1: {% endif %} must stand here, not the end of the template");
  expect("{{ 1 +\n\n}}", "line 3: an expression must stand here, not the end of the tag");
  expect("\n{{ x", "line 2: a tag has no end: '}}' is missing");
  expect("{# x", "line 1: a comment has no end: '#}' is missing");
  expect("{% raw %}", "line 1: a raw block has no end: '{% endraw %}' is missing");
  expect("{{ 'abc }}", "line 1: a text has no end: ' is missing");
  expect("{{ '\\x4' }}", "line 1: an escape in a text needs 2 hexadecimal digits");
  expect("{{ '\\ud800' }}", "line 1: an escape in a text names no character: U+D800");
  expect("{{ (1] }}", "line 1: ']' closes no bracket");
  expect("{{ f(a=1, 2) }}", "line 1: an argument stands where it may not");
  expect("{% break %}", "line 1: {% break %} stands outside of a loop");
  expect("{% macro m(a=1, b) %}{% endmacro %}", "line 1: a parameter without a default stands behind one with");
  expect("{% set none = 1 %}", "line 1: none cannot be assigned to");
  expect("\xff", "byte 0 of the template is not UTF-8");
  expect("{{ 1 }}\n{{ x.y.z }}", "line 2: 'x' is undefined");
  expect("{{ messages[0].role }}", "line 1: 'messages' is undefined");
  expect("{{ 'a' + 1 }}", "line 1: text + an integer is not possible");
  expect("{{ 1 / 0 }}", "line 1: division by zero");
  expect("{{ [1, 'a'] | sort }}", "line 1: text and an integer have no order");
  expect("{{ {[]: 1} }}", "line 1: a list cannot be a key");
  expect("{% for a in 5 %}{% endfor %}", "line 1: an integer cannot be looped over");
  expect("{% set a, b = [1] %}", "line 1: 1 values cannot be assigned to 2 names");
  expect("{% set a.b = 1 %}", "line 1: a is no namespace: its field b cannot be set");
  expect("{{ 'a' | default(1, 2, 3) }}", "line 1: default takes 2 arguments, not 3");
  expect("{{ 'a' | replace('b') }}", "line 1: replace needs its argument new");
  expect("{{ 'a' | default(other=1) }}", "line 1: default has no argument other");
  expect("{% macro m() %}{% endmacro %}\n{{ m(1) }}", "line 2: the macro m takes 0 arguments, not 1");
  expect("{{ {1: range(2)} | tojson }}", "line 1: a range cannot be written as JSON");
  expect("{{ 5() }}", "line 1: an integer cannot be called");
}

TEST(JinjaRefusals, AreTheTemplatesOwn) {
  EXPECT_EQ(refusal("\n{% macro m() %}{{ raise_exception('Roles must ' ~ 'alternate') }}{% endmacro %}{{ m() }}"),
            "Roles must alternate");
}

TEST(JinjaRefusals, NameTheVariable) {
  expect("", "the variables of a template must be the fields of an object", Json::array());
  expect("", "the variable n of a template: the integer 18446744073709551615 has more than 64 bits",
         {{"n", UINT64_MAX}});
  expect("", "the variable t of a template: a text is not UTF-8", {{"t", "\xff"}});
  expect("", "the variable b of a template: it holds binary data", {{"b", Json::binary({1})}});
  Json deep = 1;
  for (int i = 0; i < 200; ++i)
    deep = Json::array({deep});
  expect("", "the variable d of a template: it nests deeper than 100 levels", {{"d", deep}});
}

TEST(JinjaLimits, OfDepth) {
  constexpr std::string_view kDeep = "nests deeper than 150 levels";
  const std::pair<std::string_view, std::string_view> brackets[] = {
      {"(", ")"},  {"[", "]"},           {"{1:", "}"}, {"-", ""},     {"not ", ""},
      {"f(", ")"}, {"1 if 1 else ", ""}, {"a[", "]"},  {"a|b(", ")"}, {"x is y(", ")"}};
  for (const auto &[open, close] : brackets)
    expect("{{ " + times(open, 20'000) + "1" + times(close, 20'000) + " }}", kDeep);
  for (std::string_view more : {"+1", "-a", "*2", "**2", " or 1", " and 1", "|abs", ".a", "[0]", "()", " is none"})
    expect("{{ 1" + times(more, 20'000) + " }}", more == " is none" ? "a test cannot follow" : kDeep);
  for (std::string_view open :
       {"{% if 1 %}", "{% for a in b %}", "{% macro m() %}", "{% filter trim %}", "{% with %}", "{% set a %}"})
    expect(times(open, 20'000), kDeep);
  expect("{% set " + times("(", 20'000) + "a" + times(")", 20'000) + " = 1 %}", kDeep);
  EXPECT_EQ(refusal("{{ 1" + times("~1", 10'000) + " == 1" + times(" < 2", 10'000) + " }}"), "none");
  EXPECT_EQ(refusal("{% if 0 %}" + times("{% elif 0 %}", 10'000) + "{% endif %}"), "none");
}

TEST(JinjaLimits, OfRecursion) {
  constexpr std::string_view kDeep = "it goes deeper than 600 levels; does a macro call itself without end?";
  expect("{% macro m() %}{{ m() }}{% endmacro %}\n{{ m() }}", kDeep);
  expect("{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}{% call a() %}{% endcall %}{% endmacro %}{{ b() }}",
         "caller");
  expect("{% macro a() %}{{ caller() }}{% endmacro %}{% macro b() %}{% call a() %}{{ b() }}{% endcall %}{% endmacro "
         "%}{{ b() }}",
         kDeep);
  expect("{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}", kDeep);
  expect("{% set n = namespace(l=[]) %}{% for i in range(1000) %}{% set n.l = [n.l] %}{% endfor %}",
         "a list nests deeper than 100 levels");
  EXPECT_EQ(refusal("{% set n = namespace() %}{% set n.n = n %}{{ n.n.n.n == n }}{% set n.m = [n] %}{{ n.m == n.m }}"),
            "none");
}

TEST(JinjaLimits, OfWork) {
  constexpr std::string_view kLong = "the template works too long: more than 10000000 steps";
  constexpr std::string_view kLoop = "{% for i in range(100000) %}";
  expect(times(kLoop, 3) + times("{% endfor %}", 3), kLong);
  expect(fmt::format("{{% set l = range(100000) | list %}}{}{{{{ i in l }}}}{{% endfor %}}", kLoop), kLong);
  expect(fmt::format("{{% set t = 'a' * 10000000 %}}{}{{{{ t.find('b') }}}}{{% endfor %}}", kLoop), kLong);
  expect(fmt::format("{{% set n = namespace(d={{}}) %}}{}{{% set n.d = dict(n.d, **{{i|string: i}}) %}}{{% endfor %}}",
                     kLoop),
         kLong);
  // Few values that are many to compare and to print: each list holds the one before twice.
  const std::string doubled = "{% set n = namespace(a=[1], b=[1]) %}{% for i in range(60) %}{% set n.a = [n.a, n.a] "
                              "%}{% set n.b = [n.b, n.b] %}{% endfor %}";
  for (std::string_view use : {"{{ n.a == n.b }}", "{{ n.a }}", "{{ n.a | tojson }}", "{{ n.a < n.b }}"})
    expect(doubled + std::string(use), kLong);
}

TEST(JinjaLimits, OfSize) {
  constexpr std::string_view kLarge = "longer than";
  expect("{{ 'a' * 1000000000000 }}", "text times 1000000000000 is longer than what a template may make");
  expect("{{ [1] * 1000000000000 }}", kLarge);
  expect("{{ 'a' * -9223372036854775807 * 9 }}", "none");
  expect("{{ range(100001) }}", "line 1: a range has more than 100000 numbers");
  expect("{{ 'a'.center(1000000000000) }}", kLarge);
  expect("{{ 'a'.zfill(1000000000000) }}", kLarge);
  expect("{{ 'a' | indent(1000000000000) }}", kLarge);
  expect("{{ '%1000000000d' % 1 }}", "a format asks for a width or precision of more than 1048576");
  expect("{{ '{:1000000000}'.format(1) }}", "a format asks for a width or precision of more than 1048576");
  expect("{{ ('a' * 10000000).replace('', 'b' * 10000000) }}", kLarge);
  expect("{% set n = namespace(t='a') %}{% for i in range(100) %}{% set n.t = n.t + n.t %}{% endfor %}", kLarge);
  expect("{% set t = 'a' * 30000000 %}{{ t }}{{ t }}{{ t }}",
         "line 1: a text of 90000000 bytes is longer than the 67108864 that a template may make");
  expect("{{ [1] | batch(1000000000000, 0) | list }}", "a batch of 1000000000000 items");
  expect("{{ [1] | slice(1000000000000) | list }}", "slice takes from 1 to 1048576 slices");
  expect("{{ 9223372036854775807 + 1 }}", "line 1: an integer has more than 64 bits: larger ones are not supported");
  expect("{{ 9223372036854775808 }}", "line 1: an integer has more than 64 bits");
  expect("{{ 10 ** 19 }}", "an integer has more than 64 bits");
  expect("{{ 1e300 | int }}", "an integer has more than 64 bits");
  expect("{{ (-8) ** 0.5 }}", "a root of a negative number is complex, which is not supported");
  expect(std::string((4 << 20) + 1, 'a'), "the template has 4194305 bytes: more than the 4194304 that are supported");
}

} // namespace
} // namespace mt::tests
