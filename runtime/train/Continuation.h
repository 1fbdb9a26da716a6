// Texts that a model continues, a token at a time: each token takes an evaluation of one batch, whose rows are the
// texts. Part of training (--sample-every) and of `mtrun sample`. Nothing is kept between tokens: a text costs as many
// evaluations as it gets tokens.
#ifndef MT_RUNTIME_TRAIN_CONTINUATION_H
#define MT_RUNTIME_TRAIN_CONTINUATION_H

#include "runtime/tokenizer/Tokenizer.h"
#include "runtime/train/ChatTemplate.h"
#include "runtime/train/ChooseToken.h"
#include "runtime/train/Session.h"

namespace mt::train {

class Continuation {
public:
  /// `plan` must outlive it. Errors: the plan predicts no tokens; there are more prompts than its batch has rows on a
  /// rank; a prompt cannot be encoded, or is longer than a row; the tokenizer cannot be opened.
  static Result<std::unique_ptr<Continuation>> create(const plan::Plan &plan, const PromptOptions &options);

  ~Continuation();

  struct Options {
    ChoiceOptions choice;
    int64_t tokens = 64; ///< of each text at most; it ends before with the token that ends one, or when its row is full
    uint64_t seed = 0;   ///< of what is drawn, which depends on it, the text's number and the token's alone
  };
  /// Called after every token.
  using Seen = std::function<Status()>;
  /// Settles the session, and continues the prompts. Weights and moments stay as they are. Of several ranks all call
  /// it; each continues them, with the same weights and numbers.
  Status run(Session &session, int64_t step, const Options &options, const Seen &seen = {});

  size_t count() const { return texts.size(); }
  /// As it was given.
  const std::string &prompt(size_t text) const { return asked.texts[text]; }
  /// Whether the texts answer prompts, and do not continue them.
  bool answers() const { return asked.chat; }
  /// What follows the prompt so far.
  std::string text(size_t text) const;
  /// Tokens that were made, of all texts and of the longest.
  int64_t made() const;
  int64_t longest() const;

private:
  class Rows;
  Continuation(const plan::Plan &plan, PromptOptions options);
  Status encode();
  Status encode(const std::string &prompt, const std::optional<ChatTemplate> &chat, std::vector<uint32_t> &ids) const;
  Status extend(std::span<const float> predictions, const Options &options);
  bool isWhole(size_t text, int64_t most) const;

  const plan::Plan &plan;
  PromptOptions asked;
  std::unique_ptr<tokenizer::Tokenizer> tokenizer; ///< null: tokens are bytes
  std::vector<std::vector<uint32_t>> texts; ///< tokens, those of the prompts before
  std::vector<size_t> prompted;             ///< how many those are
  std::vector<bool> ended;
  std::unique_ptr<Rows> rows;
};

/// `mtrun sample`: prints what the model makes of the prompts, and what that cost.
Status sampleText(const SampleOptions &options);

} // namespace mt::train
#endif
