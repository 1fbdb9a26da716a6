// The same text, spans and errors as the package transformers, of small templates and of whole ones with conversations.
#include "runtime/jinja/Template.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <fstream>
#include <sstream>
#include <thread>

namespace mt::tests {
namespace {

using Json = nlohmann::ordered_json;
using jinja::Rendered;
using jinja::Template;

const Json &recorded() {
  static const Json all = Json::parse(std::ifstream(MT_JINJA "/cases.json"));
  return all;
}

std::string templateNamed(const std::string &name) {
  std::ostringstream text;
  text << std::ifstream(MT_JINJA "/templates/" + name).rdbuf();
  return text.str();
}

/// As make.py records it: the text and, if there are any, its spans; of an error nothing.
Json outcome(const Result<Rendered> &rendered) {
  Json made = Json::array();
  if (!rendered)
    return made;
  made.push_back(rendered->text);
  Json spans = Json::array();
  for (const jinja::Span &span : rendered->generated) {
    spans.push_back(span.begin);
    spans.push_back(span.end);
  }
  if (!spans.empty())
    made.push_back(spans);
  return made;
}

Result<Rendered> render(std::string_view source, const Json &variables) {
  MT_ASSIGN(Template read, Template::parse(source));
  return read.render(variables);
}

/// A recorded case without its first element, which is what was rendered.
Json wanted(const Json &one) {
  Json made = one;
  made.erase(0);
  return made;
}

TEST(JinjaSnippets, AreThePackages) {
  size_t texts = 0;
  for (const Json &one : recorded()["snippets"]) {
    Result<Rendered> rendered = render(one[0].get<std::string>(), recorded()["variables"]);
    EXPECT_EQ(outcome(rendered), wanted(one)) << one[0].get<std::string>() << "\n" << rendered.status().message();
    texts += one.size() > 1;
  }
  EXPECT_GT(texts, 800U);
}

TEST(JinjaSnippets, NameTheLineOfAnError) {
  for (const Json &one : recorded()["snippets"]) {
    Result<Rendered> rendered = render(one[0].get<std::string>(), recorded()["variables"]);
    if (!rendered && one[0].get<std::string>().find("raise_exception") == std::string::npos) {
      EXPECT_TRUE(rendered.status().message().starts_with("line ")) << rendered.status().message();
    }
  }
}

class JinjaChats : public testing::TestWithParam<std::string> {};

TEST_P(JinjaChats, AreThePackages) {
  Result<Template> read = Template::parse(templateNamed(GetParam()));
  ASSERT_TRUE(read.ok()) << read.status().message();
  for (const Json &one : recorded()["chats"][GetParam()]) {
    Result<Rendered> rendered = read->render(one[0]);
    EXPECT_EQ(outcome(rendered), wanted(one)) << one[0].dump() << "\n" << rendered.status().message();
  }
}

TEST_P(JinjaChats, AreTheSameOnManyThreads) {
  Result<Template> read = Template::parse(templateNamed(GetParam()));
  ASSERT_TRUE(read.ok()) << read.status().message();
  const Json &cases = recorded()["chats"][GetParam()];
  std::vector<size_t> wrong(4);
  {
    std::vector<std::jthread> threads;
    for (size_t n = 0; n < wrong.size(); ++n)
      threads.emplace_back([&, n] {
        for (size_t i = 0; i < cases.size(); ++i) {
          const Json &one = cases[(i * (2 * n + 1)) % cases.size()];
          wrong[n] += outcome(read->render(one[0])) != wanted(one);
        }
      });
  }
  EXPECT_EQ(wrong, std::vector<size_t>(4));
}

TEST_P(JinjaChats, SayWhetherTheyMarkGeneration) {
  bool marks = false;
  for (const Json &one : recorded()["chats"][GetParam()])
    marks |= one.size() > 2;
  Result<Template> read = Template::parse(templateNamed(GetParam()));
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(read->marksGeneration(), marks);
}

std::vector<std::string> names() {
  std::vector<std::string> all;
  for (const auto &[name, unused] : recorded()["chats"].items())
    all.push_back(name);
  return all;
}

INSTANTIATE_TEST_SUITE_P(Templates, JinjaChats, testing::ValuesIn(names()),
                         [](const auto &info) { return info.param.substr(0, info.param.find('.')); });

TEST(JinjaFunctions, TellTheTime) {
  Result<Rendered> rendered = render("{{ strftime_now('%Y-%m-%d %H:%M:%S %f') }}", Json::object());
  ASSERT_TRUE(rendered.ok()) << rendered.status().message();
  EXPECT_EQ(rendered->text.size(), std::string_view("2024-07-26 12:34:56 123456").size()) << rendered->text;
  EXPECT_EQ(rendered->text[4], '-');
}

} // namespace
} // namespace mt::tests
