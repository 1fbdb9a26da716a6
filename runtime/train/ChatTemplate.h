// Conversations as a model's text, by the chat template of its folder, and where in it the model itself speaks. Between
// runtime/jinja and text documents; knows no tokens but what the folder calls special. docs/chat.md.
#ifndef MT_RUNTIME_TRAIN_CHATTEMPLATE_H
#define MT_RUNTIME_TRAIN_CHATTEMPLATE_H

#include "runtime/jinja/Template.h"

#include <nlohmann/json.hpp>

#include <optional>
#include <string>
#include <vector>

namespace mt::train {

class ChatTemplate {
public:
  /// Of a tokenizer's folder, or the one that its file is in: chat_template.jinja, or tokenizer_config.json's
  /// "chat_template". Errors: there is none, or it is not understood.
  static Result<ChatTemplate> open(const std::string &tokenizer);

  struct Text {
    std::string text;
    std::vector<jinja::Span> spoken; ///< by the assistant, in order: bytes, whole characters
  };
  /// A conversation: an object with "messages", and if it has them "tools", "documents" and "chat_template_kwargs".
  /// What the assistant speaks is what the template marks as generated; a template without marks is asked for the same
  /// text with other words in the assistant's place, and what stands there is spoken, with the token that ends it.
  /// Several threads may render at once. Errors: those of the template; what the assistant says stands not in the text
  /// as it is.
  Result<Text> render(const nlohmann::ordered_json &conversation) const;
  /// What asks for an answer to a user's words.
  Result<std::string> ask(const std::string &words) const;

private:
  ChatTemplate(jinja::Template usual, std::optional<jinja::Template> withTools, nlohmann::ordered_json special)
      : usual(std::move(usual)), withTools(std::move(withTools)), special(std::move(special)) {}
  Result<jinja::Rendered> render(const nlohmann::ordered_json &conversation, const nlohmann::ordered_json &messages,
                                 bool asks) const;
  Result<std::vector<jinja::Span>> findSpoken(const nlohmann::ordered_json &conversation,
                                              const std::string &text) const;
  const jinja::Template &templateOf(const nlohmann::ordered_json &conversation) const;
  size_t endOfTurn(std::string_view text, size_t at) const;

  jinja::Template usual;
  std::optional<jinja::Template> withTools;
  nlohmann::ordered_json special;   ///< "bos_token" and the like, as variables
  std::vector<std::string> endings; ///< texts of special tokens
};

} // namespace mt::train
#endif
