// What one render makes, and how much it has worked: texts, containers, objects and scopes live until it ends, so that
// values may point to each other as they like. Work is counted, and with it memory: a step, a value and 32 bytes of
// text cost one each. Not a garbage collector: the bound on work keeps it small.
#ifndef MT_RUNTIME_JINJA_HEAP_H
#define MT_RUNTIME_JINJA_HEAP_H

#include "runtime/jinja/Value.h"

#include <deque>
#include <memory>
#include <string>

namespace mt::jinja {

constexpr size_t kMostWork = 10'000'000;
constexpr size_t kLongestText = 64 << 20;
constexpr int kDeepestValue = 100;

class Heap {
public:
  /// Counts work. False: there has been too much of it, and whoever works in a loop stops; the interpreter says so at
  /// its next step.
  bool spend(size_t work) { return (spent += work) <= kMostWork; }
  bool spendText(size_t bytes) { return spend(1 + bytes / 32); }
  Status checked() const;
  /// The error that the template raises itself: nothing is added to it.
  Status raise(std::string_view message);
  bool raised() const { return said; }

  /// Errors: longer than kLongestText.
  Result<Value> text(std::string made);
  /// Whether a text of so many bytes may be made: asked before it is.
  Status fits(size_t bytes) const;
  /// Errors: nested deeper than kDeepestValue.
  Result<Value> sequence(Sequence::Kind kind, std::vector<Value> items);
  Result<Value> list(std::vector<Value> items) { return sequence(Sequence::Kind::List, std::move(items)); }
  Result<Value> dictionary(std::vector<std::pair<Value, Value>> entries);
  Value range(int64_t start, int64_t stop, int64_t step, std::vector<Value> items);
  template <typename T, typename... Args> T *object(Args &&...args) {
    spend(4);
    auto made = std::make_unique<T>(std::forward<Args>(args)...);
    T *kept = made.get();
    objects.push_back(std::move(made));
    return kept;
  }

  std::optional<int64_t> moment; ///< what strftime_now tells, in seconds since 1970, UTC; none: the clock's, here

private:
  size_t spent = 0;
  bool said = false;
  std::deque<std::string> texts;
  std::deque<Sequence> sequences;
  std::deque<Dictionary> dictionaries;
  std::deque<std::unique_ptr<Object>> objects;
};

int depthOf(const Value &value);

} // namespace mt::jinja
#endif
