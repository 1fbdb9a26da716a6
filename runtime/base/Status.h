// Success or an error message for a person; and a value or such an error. What every fallible call of ours returns:
// messages say what was wrong, where (file, flag, place), and what to do about it. No exceptions cross our interfaces.
#ifndef MT_RUNTIME_BASE_STATUS_H
#define MT_RUNTIME_BASE_STATUS_H

#include <fmt/format.h>

#include <optional>
#include <string>
#include <utility>

namespace mt {

class [[nodiscard]] Status {
public:
  Status() = default; ///< success
  static Status error(std::string message) {
    Status status;
    status.text = std::move(message);
    return status;
  }
  bool ok() const { return !text.has_value(); }
  explicit operator bool() const { return ok(); }
  /// Empty on success.
  const std::string &message() const {
    static const std::string none;
    return text ? *text : none;
  }
  /// The same error with "context: " before it.
  Status within(const std::string &context) const { return ok() ? Status() : error(context + ": " + *text); }

private:
  std::optional<std::string> text;
};

template <typename... Args> Status fail(fmt::format_string<Args...> format, Args &&...args) {
  return Status::error(fmt::format(format, std::forward<Args>(args)...));
}

template <typename T> class [[nodiscard]] Result {
public:
  Result(T value) : held(std::move(value)) {}
  Result(Status status) : failure(std::move(status)) {}
  bool ok() const { return held.has_value(); }
  explicit operator bool() const { return ok(); }
  const Status &status() const { return failure; }
  T &operator*() { return *held; }
  const T &operator*() const { return *held; }
  T *operator->() { return &*held; }
  const T *operator->() const { return &*held; }

private:
  std::optional<T> held;
  Status failure;
};

} // namespace mt

/// Returns the error of a Status expression from the enclosing function.
#define MT_TRY(expression)                                                                                             \
  do {                                                                                                                 \
    if (::mt::Status mtStatus = (expression); !mtStatus.ok())                                                          \
      return mtStatus;                                                                                                 \
  } while (false)

#define MT_CONCAT_(a, b) a##b
#define MT_CONCAT(a, b) MT_CONCAT_(a, b)
/// Declares `target` as the value of a Result expression, or returns its error.
#define MT_ASSIGN(target, expression)                                                                                  \
  auto MT_CONCAT(mtResult, __LINE__) = (expression);                                                                   \
  if (!MT_CONCAT(mtResult, __LINE__).ok())                                                                             \
    return MT_CONCAT(mtResult, __LINE__).status();                                                                     \
  target = std::move(*MT_CONCAT(mtResult, __LINE__))

#endif
