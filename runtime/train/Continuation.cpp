#include "runtime/train/Continuation.h"

#include "runtime/base/Files.h"
#include "runtime/base/Log.h"
#include "runtime/host/Generator.h"
#include "runtime/train/CorpusForms.h"
#include "runtime/train/Elements.h"
#include "runtime/train/OpenSession.h"
#include "runtime/train/StoredTokens.h"

#include <algorithm>
#include <chrono>
#include <cstdio>

namespace mt::train {

/// A batch whose rows are the texts, the last of them again where there are fewer; the one label that counts is that of
/// the last token.
class Continuation::Rows : public Corpus {
public:
  Rows(const plan::Plan &plan, const std::vector<std::vector<uint32_t>> &texts, size_t tokens, size_t labels)
      : batches(plan, *this, Order(plan.settings.batch, false, 0)), plan(plan), texts(texts), tokens(tokens),
        labels(labels) {}

  int64_t rows() const override { return plan.settings.batch; }

  Status read(RowPlace place, std::span<std::byte *const> destinations) const override {
    const size_t mine = static_cast<size_t>(place.row % (plan.settings.batch / plan.ranks)); // each rank has all of them
    const std::vector<uint32_t> &text = texts[std::min(mine, texts.size() - 1)];
    const auto count = static_cast<int64_t>(text.size());
    const std::vector<int64_t> ids(text.begin(), text.end());
    padRow(plan.inputs[tokens], destinations[tokens], 0);
    padRow(plan.inputs[labels], destinations[labels], 0);
    MT_TRY(convert(DType::i64, reinterpret_cast<const std::byte *>(ids.data()), plan.inputs[tokens].type,
                   destinations[tokens], count));
    const DType type = plan.inputs[labels].type;
    const int64_t any = 0;
    return convert(DType::i64, reinterpret_cast<const std::byte *>(&any), type,
                   destinations[labels] + (count - 1) * static_cast<int64_t>(byteSize(type)), 1);
  }
  std::string where(RowPlace place, size_t, int64_t element) const override {
    return fmt::format("prompt {}, token {}", place.row, element);
  }

  Batches batches;

private:
  const plan::Plan &plan;
  const std::vector<std::vector<uint32_t>> &texts;
  size_t tokens, labels;
};

namespace {

/// Whether its evaluations say what follows.
bool predicts(const plan::Plan &plan) {
  const plan::Program *evaluate = plan.program(plan::ProgramKind::evaluate);
  return evaluate && std::ranges::any_of(evaluate->commands, [&](const plan::Command &command) {
           return !command.isCopy &&
                  std::ranges::any_of(plan.templates[command.templateIndex].calls, [](const plan::Call &call) {
                    return call.signature.kernel == "report" && call.operands.size() > 2;
                  });
         });
}

} // namespace

Continuation::Continuation(const plan::Plan &plan, PromptOptions options) : plan(plan), asked(std::move(options)) {}

Continuation::~Continuation() = default;

Result<std::unique_ptr<Continuation>> Continuation::create(const plan::Plan &plan, const PromptOptions &options) {
  if (!predicts(plan))
    return fail("{}: it is no language model with a loss of mtc's (--loss causal-lm), and predicts no tokens",
                plan.model.name);
  MT_ASSIGN(const size_t tokens, tokenInput(plan, "--prompt", false));
  const int64_t most = plan.settings.batch / plan.ranks;
  if (static_cast<int64_t>(options.texts.size()) > most)
    return fail("--prompt: {} texts, and the plan's batch has {} rows: give fewer, or compile with a larger --batch",
                options.texts.size(), most);
  std::unique_ptr<Continuation> made(new Continuation(plan, options));
  made->rows = std::make_unique<Rows>(plan, made->texts, tokens, *labelInput(plan));
  MT_TRY(made->encode());
  return made;
}

Status Continuation::encode(const std::string &prompt, const std::optional<ChatTemplate> &chat,
                            std::vector<uint32_t> &ids) const {
  if (!tokenizer) {
    for (char byte : prompt)
      ids.push_back(static_cast<uint8_t>(byte));
    return Status();
  }
  if (chat) {
    MT_ASSIGN(const std::string text, chat->ask(prompt));
    return tokenizer->encode(text, false, ids);
  }
  MT_TRY(tokenizer->encode(prompt, true, ids));
  if (tokenizer->special().end && ids.size() > 1 && ids.back() == *tokenizer->special().end)
    ids.pop_back(); // what ends a text is what the model is asked for
  return Status();
}

Status Continuation::encode() {
  MT_ASSIGN(const size_t input, tokenInput(plan, "--prompt", false));
  if (asked.chat && asked.tokenizer.empty())
    return fail("--chat: which model's template? Say --tokenizer FOLDER");
  if (!asked.tokenizer.empty()) {
    MT_ASSIGN(tokenizer, tokenizer::openTokenizer(asked.tokenizer));
  }
  std::optional<ChatTemplate> chat;
  if (asked.chat) {
    MT_ASSIGN(chat, ChatTemplate::open(asked.tokenizer));
  }
  for (const std::string &prompt : asked.texts) {
    std::vector<uint32_t> &ids = texts.emplace_back();
    MT_TRY(encode(prompt, chat, ids).within("--prompt"));
    MT_TRY(checkVocabulary(ids, plan.inputs[input].vocabulary, tokenizer ? asked.tokenizer : "(none: bytes)"));
    if (ids.empty())
      return fail("--prompt: it is empty, and the model continues at least one token");
    if (static_cast<int64_t>(ids.size()) >= plan.inputs[input].dims[1])
      return fail("--prompt: it has {} tokens, and a row has {}: give a shorter one, or compile with a larger --seq",
                  ids.size(), plan.inputs[input].dims[1]);
    prompted.push_back(ids.size());
  }
  ended.assign(texts.size(), false);
  return Status();
}

bool Continuation::isWhole(size_t text, int64_t most) const {
  return ended[text] || static_cast<int64_t>(texts[text].size() - prompted[text]) >= most ||
         static_cast<int64_t>(texts[text].size()) >= plan.settings.sequence;
}

Status Continuation::run(Session &session, int64_t step, const Options &options, const Seen &seen) {
  MT_TRY(session.settle());
  for (size_t i = 0; i < texts.size(); ++i)
    texts[i].resize(prompted[i]);
  ended.assign(texts.size(), false);
  auto isDone = [&] {
    for (size_t i = 0; i < texts.size(); ++i)
      if (!isWhole(i, options.tokens))
        return false;
    return true;
  };
  std::vector<float> predictions;
  while (!isDone() && !session.ranks().stop()) {
    Job job{plan::ProgramKind::evaluate, step, &rows->batches, 0, plan.settings.batch};
    job.predictions = &predictions;
    MT_TRY(session.enqueue(job));
    MT_TRY(session.settle());
    MT_TRY(extend(predictions, options));
    if (seen)
      MT_TRY(seen());
  }
  return Status();
}

Status Continuation::extend(std::span<const float> predictions, const Options &options) {
  const size_t classes = predictions.size() / static_cast<size_t>(plan.settings.batch / plan.ranks);
  for (size_t i = 0; i < texts.size(); ++i) {
    if (isWhole(i, options.tokens))
      continue;
    const auto number = static_cast<uint32_t>(texts[i].size());
    const std::array<uint32_t, 4> words =
        host::philox({number, static_cast<uint32_t>(i), 0, 0},
                     {static_cast<uint32_t>(options.seed), static_cast<uint32_t>(options.seed >> 32)});
    MT_ASSIGN(const uint32_t token,
              chooseToken(predictions.subspan(i * classes, classes), options.choice, words[0] * 0x1p-32));
    ended[i] = tokenizer && tokenizer->special().end == token;
    if (!ended[i])
      texts[i].push_back(token);
  }
  return Status();
}

std::string Continuation::text(size_t text) const {
  const std::span<const uint32_t> made = std::span(texts[text]).subspan(prompted[text]);
  if (!tokenizer)
    return std::string(made.begin(), made.end());
  if (asked.chat)
    return tokenizer->decode(made, true);
  // Decoded together with the prompt, of which the text before may be changed by what follows.
  const std::string before = tokenizer->decode(std::span(texts[text]).first(prompted[text]), true);
  const std::string all = tokenizer->decode(texts[text], true);
  return all.starts_with(before) ? all.substr(before.size()) : tokenizer->decode(made, true);
}

int64_t Continuation::longest() const {
  size_t most = 0;
  for (size_t i = 0; i < texts.size(); ++i)
    most = std::max(most, texts[i].size() - prompted[i]);
  return static_cast<int64_t>(most);
}

int64_t Continuation::made() const {
  int64_t count = 0;
  for (size_t i = 0; i < texts.size(); ++i)
    count += static_cast<int64_t>(texts[i].size() - prompted[i]);
  return count;
}

namespace {

using Clock = std::chrono::steady_clock;

/// One text is printed as it grows, several when they are whole.
class Printed {
public:
  explicit Printed(const Continuation &texts) : texts(texts) {}

  Status begin() const { return texts.count() == 1 && !texts.answers() ? writeOut(texts.prompt(0)) : Status(); }
  Status grow() {
    if (texts.count() != 1)
      return Status();
    const std::string text = texts.text(0);
    // What a half of a character stands for may change with the next token.
    if (text.size() <= shown || text.ends_with("\xef\xbf\xbd"))
      return Status();
    MT_TRY(writeOut(text.substr(shown)));
    std::fflush(stdout);
    shown = text.size();
    return Status();
  }
  Status end() {
    if (texts.count() == 1)
      return writeOut(texts.text(0).substr(std::min(shown, texts.text(0).size())) + "\n");
    for (size_t i = 0; i < texts.count(); ++i)
      MT_TRY(writeOut(
          fmt::format("{}{}{}{}\n", i > 0 ? "\n" : "", texts.prompt(i), texts.answers() ? "\n" : "", texts.text(i))));
    return Status();
  }

private:
  const Continuation &texts;
  size_t shown = 0;
};

Status sampleText(const SampleOptions &options, Ranks &ranks) {
  MachineOptions machine = options.machine;
  MT_ASSIGN(const plan::Plan plan,
            loadToRead(options.plan, options.from, machine, ranks, {{"--tokenizer", options.prompts.tokenizer}}));
  MT_ASSIGN(const std::unique_ptr<Continuation> texts, Continuation::create(plan, options.prompts));
  auto nothing = [](const Job &, float, std::span<const double>) { return Status(); };
  MT_ASSIGN(std::unique_ptr<Session> session,
            openSession(options.from, options.best, options.ema, machine, plan, ranks, nothing));
  Printed printed(*texts);
  const bool prints = ranks.isFirst();
  MT_TRY(prints ? printed.begin() : Status());
  const Clock::time_point begun = Clock::now();
  const Continuation::Options how{{options.temperature, options.topK, options.topP}, options.tokens, options.seed};
  MT_TRY(texts->run(*session, 0, how, [&] { return prints ? printed.grow() : Status(); }));
  const double seconds = std::chrono::duration<double>(Clock::now() - begun).count();
  MT_TRY(prints ? printed.end() : Status());
  if (!options.machine.trace.empty())
    MT_TRY(session->writeTrace());
  if (const int64_t most = texts->longest(); prints && most > 0)
    log().info("{} tokens in {:.3g} s: {:.3g} s each, an evaluation of {} rows of {} tokens", texts->made(), seconds,
               seconds / static_cast<double>(most), plan.settings.batch, plan.settings.sequence);
  return Status();
}

} // namespace

Status sampleText(const SampleOptions &options) {
  Ranks ranks;
  return ranks.end(sampleText(options, ranks));
}

} // namespace mt::train
