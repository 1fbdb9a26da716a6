#include "runtime/tokenizer/Regex.h"

#include "runtime/tokenizer/RegexDialect.h"
#include "runtime/tokenizer/Unicode.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <array>
#include <limits>

namespace mt::tokenizer {
namespace {

template <auto release> struct Releases {
  template <typename T> void operator()(T *held) const { release(held); }
};
template <typename T, auto release> using Held = std::unique_ptr<T, Releases<release>>;

constexpr size_t kStackBytes = 32 << 10, kMostStackBytes = 64 << 20;
constexpr uint64_t kFewSteps = 100'000'000, kStepsOfByte = 32, kMostSteps = UINT32_MAX;
constexpr uint32_t kMostHeapKiB = 1 << 20;

std::string messageOf(int code) {
  std::array<PCRE2_UCHAR, 256> text = {};
  pcre2_get_error_message(code, text.data(), text.size());
  return reinterpret_cast<const char *>(text.data());
}

} // namespace

struct RegexMemory::Parts {
  Held<pcre2_match_data, pcre2_match_data_free> data{pcre2_match_data_create(1, nullptr)};
  Held<pcre2_match_context, pcre2_match_context_free> context{pcre2_match_context_create(nullptr)};
  Held<pcre2_jit_stack, pcre2_jit_stack_free> stack{pcre2_jit_stack_create(kStackBytes, kMostStackBytes, nullptr)};
};

RegexMemory::RegexMemory() : held(std::make_unique<Parts>()) {
  pcre2_jit_stack_assign(held->context.get(), nullptr, held->stack.get());
  pcre2_set_heap_limit(held->context.get(), kMostHeapKiB);
}
RegexMemory::RegexMemory(RegexMemory &&) noexcept = default;
RegexMemory::~RegexMemory() = default;

struct Regex::Code {
  Held<pcre2_code, pcre2_code_free> compiled;
  bool jit = false, mayBeEmpty = true;
};

Regex::Regex(std::string expression, std::unique_ptr<Code> code)
    : expression(std::move(expression)), code(std::move(code)) {}
Regex::Regex(Regex &&) noexcept = default;
Regex &Regex::operator=(Regex &&) noexcept = default;
Regex::~Regex() = default;

Result<Regex> Regex::compile(std::string_view expression) {
  MT_ASSIGN(std::string translated, translateRegex(expression));
  int error = 0;
  PCRE2_SIZE place = 0;
  auto code = std::make_unique<Code>();
  code->compiled.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
                                     PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &error, &place,
                                     nullptr));
  if (!code->compiled)
    return fail("the regular expression {}: {}", expression, messageOf(error));
  uint32_t empty = 1;
  pcre2_pattern_info(code->compiled.get(), PCRE2_INFO_MATCHEMPTY, &empty);
  code->mayBeEmpty = empty != 0;
  code->jit = pcre2_jit_compile(code->compiled.get(), PCRE2_JIT_COMPLETE) == 0;
  return Regex(std::string(expression), std::move(code));
}

bool Regex::mayBeEmpty() const { return code->mayBeEmpty; }

Result<std::optional<Match>> Regex::find(std::string_view text, size_t from, RegexMemory &memory) const {
  RegexMemory::Parts &parts = memory.parts();
  auto subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  const uint64_t steps = std::min(kMostSteps, std::max(kFewSteps, kStepsOfByte * text.size())); // long runs take long
  pcre2_set_match_limit(parts.context.get(), static_cast<uint32_t>(steps));
  int found = PCRE2_ERROR_JIT_STACKLIMIT;
  if (code->jit)
    found = pcre2_jit_match(code->compiled.get(), subject, text.size(), from, PCRE2_NO_UTF_CHECK, parts.data.get(),
                            parts.context.get());
  if (found == PCRE2_ERROR_JIT_STACKLIMIT) // more than its stack: by the interpreter, on the heap
    found = pcre2_match(code->compiled.get(), subject, text.size(), from, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT,
                        parts.data.get(), parts.context.get());
  if (found == PCRE2_ERROR_NOMATCH)
    return std::optional<Match>();
  if (found < 0)
    return fail("the regular expression {} gave up at byte {} of the text: {}; its file asks for too much", expression,
                from, messageOf(found));
  const PCRE2_SIZE *place = pcre2_get_ovector_pointer(parts.data.get());
  return std::optional(Match{place[0], place[1]});
}

Result<std::optional<Match>> Matches::next() {
  while (from < text.size() || (from == text.size() && regex.mayBeEmpty())) {
    MT_ASSIGN(std::optional<Match> match, regex.find(text, from, memory));
    if (!match || match->end < match->begin)
      break;
    if (match->begin == match->end && lastEnd == match->end) {
      from += from < text.size() ? lengthOf(text[from]) : 1;
      continue;
    }
    from = match->end;
    lastEnd = match->end;
    return match;
  }
  from = std::numeric_limits<size_t>::max();
  return std::optional<Match>();
}

} // namespace mt::tokenizer
