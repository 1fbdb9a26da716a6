#include "runtime/train/ChatTemplate.h"

#include "runtime/base/Files.h"
#include "runtime/base/Json.h"

#include <algorithm>
#include <filesystem>

namespace mt::train {
namespace {

using jinja::Span;
using nlohmann::ordered_json;
namespace fs = std::filesystem;

constexpr const char *kFile = "chat_template.jinja", *kConfiguration = "tokenizer_config.json";
/// What clocks say to templates: 26 July 2024, the day that those of Llama 3.1 take where they have no clock. Text that
/// changed from day to day could not be trained on again.
constexpr int64_t kDay = 1721952000;

/// "<s>", or an object with "content".
std::optional<std::string> tokenOf(const ordered_json &value) {
  if (value.is_string())
    return value.get<std::string>();
  if (value.is_object() && value.contains("content") && value["content"].is_string())
    return value["content"].get<std::string>();
  return std::nullopt;
}

struct Sources {
  std::string usual, withTools; ///< the second may be empty
};

/// A template, or several by name.
Result<Sources> sourcesOf(const ordered_json &value) {
  Sources found;
  if (value.is_string())
    found.usual = value.get<std::string>();
  for (const ordered_json &each : value.is_array() ? value : ordered_json::array()) {
    if (!each.is_object() || !each.contains("name") || !each.contains("template") || !each["template"].is_string())
      return fail("\"chat_template\" is a list of something else than names and templates");
    if (each["name"] == "default")
      found.usual = each["template"].get<std::string>();
    if (each["name"] == "tool_use")
      found.withTools = each["template"].get<std::string>();
  }
  if (found.usual.empty())
    return fail("\"chat_template\" is no template, nor a list of which one is named \"default\"");
  return found;
}

/// The special tokens of a configuration, by the names that templates know them by.
ordered_json specialOf(const ordered_json &configuration) {
  ordered_json special = ordered_json::object();
  for (const auto &[key, value] : configuration.items())
    if (const std::optional<std::string> token = tokenOf(value); token && key.ends_with("_token"))
      special[key] = *token;
  return special;
}

std::vector<std::string> endingsOf(const ordered_json &configuration, const ordered_json &special) {
  std::vector<std::string> endings;
  for (const auto &[key, token] : special.items())
    endings.push_back(token.get<std::string>());
  if (auto added = configuration.find("added_tokens_decoder"); added != configuration.end() && added->is_object())
    for (const auto &[id, token] : added->items())
      if (const std::optional<std::string> text = tokenOf(token); text && token.value("special", false))
        endings.push_back(*text);
  return endings;
}

bool isSpoken(const ordered_json &message) {
  return message.is_object() && message.value("role", ordered_json()) == "assistant";
}

/// Whether all that it says is a text: it calls no tools, has no thoughts beside it, and no parts.
bool isPlain(const ordered_json &message) {
  for (const auto &[key, value] : message.items())
    if (key != "role" && key != "content" && key != "name" && !value.is_null() && !(value.is_array() && value.empty()))
      return false;
  return message.contains("content") && message["content"].is_string();
}

/// Words that no text has, of a message of the conversation.
std::string marker(size_t message) { return fmt::format("\xee\x80\x80{}\xee\x80\x81", message); }

} // namespace

Result<ChatTemplate> ChatTemplate::open(const std::string &tokenizer) {
  std::error_code error;
  const std::string folder =
      fs::is_regular_file(tokenizer, error) ? fs::path(tokenizer).parent_path().string() : tokenizer;
  MT_ASSIGN(const std::optional<std::string> file, readFile((fs::path(folder) / kFile).string()));
  MT_ASSIGN(const std::optional<std::string> text, readFile((fs::path(folder) / kConfiguration).string()));
  const std::string path = (fs::path(folder) / (file ? kFile : kConfiguration)).string();
  Result<ordered_json> configuration = parseOrderedJson(text.value_or("{}"));
  if (!configuration || !configuration->is_object())
    return fail("{}: is not a JSON object", (fs::path(folder) / kConfiguration).string());
  Sources sources{file.value_or(""), ""};
  if (!file) {
    auto own = configuration->find("chat_template");
    if (own == configuration->end() || own->is_null())
      return fail(
          "--tokenizer {}: has no chat template, which \"messages\" need: neither {} nor \"chat_template\" in {}; give "
          "the folder of a model that chats, or \"prompt\" and \"completion\"",
          folder, kFile, kConfiguration);
    Result<Sources> found = sourcesOf(*own);
    if (!found)
      return found.status().within(path);
    sources = *found;
  }
  Result<jinja::Template> usual = jinja::Template::parse(sources.usual);
  if (!usual)
    return usual.status().within(path);
  std::optional<jinja::Template> withTools;
  if (!sources.withTools.empty()) {
    Result<jinja::Template> parsed = jinja::Template::parse(sources.withTools);
    if (!parsed)
      return parsed.status().within(path);
    withTools = std::move(*parsed);
  }
  ordered_json special = specialOf(*configuration);
  std::vector<std::string> endings = endingsOf(*configuration, special);
  ChatTemplate made(std::move(*usual), std::move(withTools), std::move(special));
  made.endings = std::move(endings);
  return made;
}

Result<jinja::Rendered> ChatTemplate::render(const ordered_json &conversation, const ordered_json &messages,
                                             bool asks) const {
  ordered_json variables = special;
  for (const char *key : {"tools", "documents"})
    variables[key] = conversation.contains(key) ? conversation[key] : ordered_json();
  if (auto more = conversation.find("chat_template_kwargs"); more != conversation.end() && more->is_object())
    variables.update(*more);
  variables["messages"] = messages;
  variables["add_generation_prompt"] = asks;
  return templateOf(conversation).render(variables, kDay);
}

const jinja::Template &ChatTemplate::templateOf(const ordered_json &conversation) const {
  const bool hasTools = conversation.contains("tools") && !conversation["tools"].is_null();
  return hasTools && withTools ? *withTools : usual;
}

Result<ChatTemplate::Text> ChatTemplate::render(const ordered_json &conversation) const {
  if (!conversation.contains("messages") || !conversation["messages"].is_array())
    return fail("\"messages\" must be a list");
  const ordered_json &messages = conversation["messages"];
  MT_ASSIGN(jinja::Rendered rendered, render(conversation, messages, false));
  Text made{std::move(rendered.text), std::move(rendered.generated)};
  if (!templateOf(conversation).marksGeneration()) {
    MT_ASSIGN(made.spoken, findSpoken(conversation, made.text));
  }
  std::erase_if(made.spoken, [](const Span &span) { return span.begin == span.end; });
  return made;
}

/// Behind a text that a turn says, the token that ends the turn.
size_t ChatTemplate::endOfTurn(std::string_view text, size_t at) const {
  size_t longest = 0;
  for (const std::string &ending : endings)
    if (!ending.empty() && text.substr(at).starts_with(ending))
      longest = std::max(longest, ending.size());
  return at + longest;
}

Result<std::vector<Span>> ChatTemplate::findSpoken(const ordered_json &conversation, const std::string &text) const {
  ordered_json marked = conversation["messages"];
  for (size_t i = 0; i < marked.size(); ++i) {
    if (isSpoken(marked[i]) && !isPlain(marked[i]))
      return fail("message {}: the assistant says more than a text there (tool calls, thoughts, parts), and the chat "
                  "template does not "
                  "mark what is to be learned: mark it with {{% generation %}} ... {{% endgeneration %}}",
                  i + 1);
    if (isSpoken(marked[i]))
      marked[i]["content"] = marker(i);
  }
  MT_ASSIGN(const jinja::Rendered other, render(conversation, marked, false));
  std::vector<Span> spans;
  size_t at = 0, from = 0; // in the text, and in the other one
  for (size_t i = 0; i < marked.size(); ++i) {
    if (!isSpoken(marked[i]))
      continue;
    const size_t place = other.text.find(marker(i), from);
    const std::string between = other.text.substr(from, place == std::string::npos ? place : place - from);
    std::string words = conversation["messages"][i]["content"].get<std::string>();
    if (place != std::string::npos && text.compare(at, between.size(), between) == 0) {
      at += between.size();
      from = place + marker(i).size();
      if (text.compare(at, words.size(), words) != 0) { // many templates trim them
        const size_t first = words.find_first_not_of(" \t\r\n\f\v"), last = words.find_last_not_of(" \t\r\n\f\v");
        words = first == std::string::npos ? "" : words.substr(first, last - first + 1);
      }
      if (text.compare(at, words.size(), words) == 0) {
        spans.push_back({at, endOfTurn(text, at + words.size())});
        at += words.size();
        continue;
      }
    }
    return fail("message {}: the chat template does not put the assistant's words into its text as they are, so that "
                "what is to be "
                "learned cannot be told: mark it in the template with {{% generation %}} ... {{% endgeneration %}}",
                i + 1);
  }
  if (text.substr(at) != other.text.substr(from))
    return fail(
        "the chat template's text depends on what the assistant says beyond its words, so that what is to be learned "
        "cannot be told: mark it in the template with {{% generation %}} ... {{% endgeneration %}}");
  return spans;
}

Result<std::string> ChatTemplate::ask(const std::string &words) const {
  const ordered_json messages = {{{"role", "user"}, {"content", words}}};
  MT_ASSIGN(jinja::Rendered rendered, render(ordered_json::object(), messages, true));
  return std::move(rendered.text);
}

} // namespace mt::train
