// Conversations become the tokens that transformers makes of them, of which those count that its masks of the
// assistant's tokens have; and what is found of a template that marks nothing. MT_CHATS names other cases than those of
// the tests.
#include "runtime/tokenizer/Tokenizer.h"
#include "runtime/train/EncodeDocuments.h"
#include "tests/train/TestFiles.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace mt::train {
namespace {

using nlohmann::ordered_json;
using tests::Folder;

ordered_json cases() {
  const char *other = std::getenv("MT_CHATS");
  return ordered_json::parse(std::ifstream(other ? other : MT_CHAT_CASES));
}

/// A tokenizer's folder with a template, and a file of conversations.
void write(const Folder &folder, const ordered_json &of, const std::string &chats) {
  std::filesystem::copy_file(std::string(MT_TOKENIZERS "/") + of["tokenizer"].get<std::string>(),
                             folder / "tokenizer.json", std::filesystem::copy_options::overwrite_existing);
  ordered_json configuration = of["special"];
  configuration["chat_template"] = of["template"];
  std::ofstream(folder / "tokenizer_config.json") << configuration.dump();
  std::ofstream(folder / "chats.jsonl") << chats;
}

Result<std::vector<EncodedDocument>> encoded(const Folder &folder) {
  MT_ASSIGN(std::unique_ptr<tokenizer::Tokenizer> tokenizer, tokenizer::openTokenizer(folder / ""));
  MT_ASSIGN(TextDocuments documents, TextDocuments::open({folder / "chats.jsonl"}, folder / ""));
  std::vector<EncodedDocument> all;
  MT_TRY(encodeDocuments(documents, *tokenizer, 2, [&](size_t, const EncodedDocument &made) {
    all.push_back(made);
    return Status();
  }));
  return all;
}

std::string maskOf(const EncodedDocument &document) {
  std::string mask;
  for (bool counts : document.counts)
    mask += counts ? '1' : '0';
  return mask;
}

TEST(Chats, AreThoseOfTransformers) {
  for (const ordered_json &of : cases()) {
    SCOPED_TRACE(of["tokenizer"].get<std::string>());
    Folder folder;
    std::string lines;
    for (const ordered_json &chat : of["chats"])
      lines += ordered_json{{"messages", chat["messages"]}}.dump() + "\n";
    write(folder, of, lines);
    Result<std::vector<EncodedDocument>> made = encoded(folder);
    ASSERT_TRUE(made.ok()) << made.status().message();
    ASSERT_EQ(made->size(), of["chats"].size());
    size_t different = 0;
    for (size_t i = 0; i < made->size() && different < 3; ++i) {
      const ordered_json &want = of["chats"][i];
      const auto ids = want["ids"].get<std::vector<uint32_t>>();
      if ((*made)[i].tokens == ids && maskOf((*made)[i]) == want["mask"])
        continue;
      ++different;
      EXPECT_EQ((*made)[i].tokens, ids) << "conversation " << i << ": " << want["messages"].dump();
      EXPECT_EQ(maskOf((*made)[i]), want["mask"].get<std::string>())
          << "conversation " << i << ": " << want["messages"].dump();
    }
  }
}

/// Of qwen2.json: what is spoken, as text.
std::vector<std::string> spoken(const std::string &source, const std::string &messages) {
  Folder folder;
  const ordered_json of = {
      {"tokenizer", "qwen2.json"}, {"template", source}, {"special", {{"eos_token", "<|endoftext|>"}}}};
  write(folder, of, "");
  Result<ChatTemplate> chat = ChatTemplate::open(folder / "");
  EXPECT_TRUE(chat.ok()) << chat.status().message();
  Result<ChatTemplate::Text> text = chat->render(ordered_json::parse(R"({"messages": )" + messages + "}"));
  if (!text)
    return {"error: " + text.status().message()};
  std::vector<std::string> found;
  for (const jinja::Span &span : text->spoken)
    found.push_back(text->text.substr(span.begin, span.end - span.begin));
  return found;
}

constexpr const char *kPlain =
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content|trim + '<|endoftext|>\\n' }}{% endfor %}";

TEST(Chats, WhatIsSpokenIsFoundWithoutMarks) {
  EXPECT_EQ(spoken(kPlain, R"([{"role": "user", "content": "a b"}, {"role": "assistant", "content": "  a b\n"},
                               {"role": "user", "content": "a b"}, {"role": "assistant", "content": "user"}])"),
            (std::vector<std::string>{"a b<|endoftext|>", "user<|endoftext|>"}));
  EXPECT_EQ(spoken(kPlain, R"([{"role": "user", "content": "a"}])"), std::vector<std::string>());
  EXPECT_EQ(spoken(kPlain, R"([{"role": "assistant", "content": ""}])"), (std::vector<std::string>{"<|endoftext|>"}));
}

TEST(Chats, WordsThatATemplateChangesAreRefused) {
  const std::string upper = "{% for m in messages %}{{ m.content|upper }}{% endfor %}";
  EXPECT_NE(spoken(upper, R"([{"role": "assistant", "content": "abc"}])")
                .at(0)
                .find("error: message 1: the chat template does not"),
            std::string::npos);
  const std::string depends = "{% for m in messages %}{{ m.content }}{% endfor %}{{ messages[0].content|length }}";
  EXPECT_NE(spoken(depends, R"([{"role": "assistant", "content": "abcd"}])").at(0).find("mark it in the template"),
            std::string::npos);
}

TEST(Chats, WhatIsMoreThanATextIsRefusedWithoutMarks) {
  for (const char *more :
       {R"("content": null, "tool_calls": [{"function": {"name": "f"}}])",
        R"("content": "a", "reasoning_content": "b")", R"("content": [{"type": "text", "text": "a"}])"})
    EXPECT_NE(spoken("{{ messages|length }}", fmt::format(R"([{{"role": "assistant", {}}}])", more))
                  .at(0)
                  .find("message 1: the assistant says more"),
              std::string::npos)
        << more;
  EXPECT_EQ(spoken(kPlain, R"([{"role": "assistant", "content": "a", "tool_calls": [], "name": "x"}])"),
            (std::vector<std::string>{"a<|endoftext|>"}));
}

TEST(Chats, Refusals) {
  Folder folder;
  const ordered_json of = {{"tokenizer", "qwen2.json"}, {"template", kPlain}, {"special", ordered_json::object()}};
  auto refusal = [&](const std::string &lines, const ordered_json &configuration = {}) {
    write(folder, of, lines);
    if (!configuration.is_null())
      std::ofstream(folder / "tokenizer_config.json") << configuration.dump();
    return encoded(folder).status().message();
  };
  const std::string good = R"({"messages": [{"role": "user", "content": "a"}]})";
  EXPECT_EQ(refusal(good), "");
  EXPECT_NE(refusal(good, ordered_json::object()).find("has no chat template, which \"messages\" need"),
            std::string::npos);
  EXPECT_NE(refusal(good, {{"chat_template", 3}}).find("\"chat_template\" is no template"), std::string::npos);
  EXPECT_NE(refusal(good, {{"chat_template", {{{"name", "x"}}}}}).find("names and templates"), std::string::npos);
  EXPECT_NE(refusal(good, {{"chat_template", "{% if %}"}}).find("tokenizer_config.json: "), std::string::npos);
  EXPECT_NE(refusal(good + "\n{\"text\": \"a\"}").find("chats.jsonl:2: no \"messages\", which the first line has"),
            std::string::npos);
  EXPECT_NE(refusal(good + "\n{\"messages\": 3}").find("chats.jsonl:2: \"messages\" must be a list"),
            std::string::npos);
  EXPECT_NE(refusal(R"({"messages": [3]})").find("chats.jsonl:1: "), std::string::npos);
}

TEST(Chats, SeveralTemplatesByName) {
  Folder folder;
  const ordered_json of = {
      {"tokenizer", "qwen2.json"},
      {"template", {{{"name", "default"}, {"template", "plain"}}, {{"name", "tool_use"}, {"template", "tools"}}}},
      {"special", ordered_json::object()}};
  write(folder, of, "");
  Result<ChatTemplate> chat = ChatTemplate::open(folder / "");
  ASSERT_TRUE(chat.ok()) << chat.status().message();
  EXPECT_EQ(chat->render(ordered_json::parse(R"({"messages": []})"))->text, "plain");
  EXPECT_EQ(chat->render(ordered_json::parse(R"({"messages": [], "tools": [{}]})"))->text, "tools");
  std::ofstream(folder / "chat_template.jinja") << "{{ day }}{{ strftime_now('%d %b %Y') }}";
  chat = ChatTemplate::open(folder / "");
  ASSERT_TRUE(chat.ok());
  EXPECT_EQ(chat->render(ordered_json::parse(R"({"messages": [], "chat_template_kwargs": {"day": "Fri "}})"))->text,
            "Fri 26 Jul 2024");
}

} // namespace
} // namespace mt::train
