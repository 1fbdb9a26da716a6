// config.json of a checkpoint folder, read field by field. Nobody vouches for what it says: sizes are bounded, numbers
// finite, and the first field that is missing, of another kind or not supported is the error. A field that is null
// counts as missing, as in transformers. Knows no architecture.
#ifndef MT_MODELS_CHECKPOINTCONFIG_H
#define MT_MODELS_CHECKPOINTCONFIG_H

#include "runtime/base/Status.h"

#include <nlohmann/json.hpp>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace mt::models {

class CheckpointConfig {
public:
  static constexpr int64_t kLargest = int64_t(1) << 30; ///< of every size

  static Result<CheckpointConfig> read(const std::string &path);
  /// One that says nothing.
  CheckpointConfig() : json(nlohmann::json::object()), state(std::make_shared<State>()) {}

  int64_t integer(const std::string &name); ///< 1 to kLargest; must be there
  int64_t integerOr(const std::string &name, int64_t otherwise);
  int64_t countOr(const std::string &name, int64_t otherwise); ///< may be 0
  double realOr(const std::string &name, double otherwise);
  double positive(const std::string &name); ///< above 0; must be there
  double positiveOr(const std::string &name, double otherwise);
  bool flagOr(const std::string &name, bool otherwise);
  std::string textOr(const std::string &name, const std::string &otherwise);
  std::vector<std::string> textsOr(const std::string &name, std::vector<std::string> otherwise);
  std::vector<int64_t> integersOr(const std::string &name, std::vector<int64_t> otherwise); ///< 0 to kLargest each
  std::vector<double> positives(const std::string &name, size_t count);                     ///< so many, each above 0
  /// An object in this one, whose fields are called NAME.FIELD; empty where it is missing.
  CheckpointConfig inner(const std::string &name);

  bool mentions(const std::string &name) const { return json.contains(name); } ///< also where it is null
  bool has(const std::string &name) const { return json.contains(name) && !json[name].is_null(); }
  /// The value as text, for messages.
  std::string text(const std::string &name) const { return json.contains(name) ? json[name].dump() : "missing"; }

  /// Refuses a setting that the graph would not honour.
  void require(bool holds, const std::string &name, const std::string &supported);
  template <typename... Args> void refuse(fmt::format_string<Args...> format, Args &&...args) {
    if (state->failure)
      state->failure = fail(format, std::forward<Args>(args)...);
  }
  Status status() const { return state->failure.within(state->path); }

  /// Names of the fields that were asked for so far, and of those that had to be something: what.
  const std::set<std::string> &asked() const { return state->asked; }
  const std::map<std::string, std::string> &required() const { return state->required; }

private:
  struct State {
    std::string path;
    Status failure;
    std::set<std::string> asked;
    std::map<std::string, std::string> required;
  };
  const nlohmann::json *find(const std::string &name);
  double realIn(const nlohmann::json &value, const std::string &name);

  nlohmann::json json;
  std::string prefix;
  std::shared_ptr<State> state; ///< of the whole file
};

} // namespace mt::models
#endif
