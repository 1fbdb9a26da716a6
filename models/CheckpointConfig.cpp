#include "models/CheckpointConfig.h"

#include "runtime/base/Json.h"
#include "runtime/base/MappedFile.h"

#include <cmath>

namespace mt::models {

using Json = nlohmann::json;

Result<CheckpointConfig> CheckpointConfig::read(const std::string &path) {
  MT_ASSIGN(MappedFile file, MappedFile::open(path));
  Result<Json> json = parseJson({reinterpret_cast<const char *>(file.bytes().data()), file.size()});
  if (!json || !json->is_object())
    return fail("{}: is not a JSON object{}", path, json ? "" : ": " + json.status().message());
  CheckpointConfig config;
  config.json = std::move(*json);
  config.state->path = path;
  return config;
}

/// The value, if it is there and not null.
const Json *CheckpointConfig::find(const std::string &name) {
  state->asked.insert(prefix + name);
  return has(name) ? &json[name] : nullptr;
}

int64_t CheckpointConfig::integer(const std::string &name) {
  const Json *value = find(name);
  if (value && value->is_number_integer() && *value >= 1 && *value <= kLargest)
    return value->get<int64_t>();
  refuse("'{}{}' is {}; it must be a positive integer, at most {}", prefix, name, text(name), kLargest);
  return 1;
}

int64_t CheckpointConfig::integerOr(const std::string &name, int64_t otherwise) {
  return find(name) ? integer(name) : otherwise;
}

int64_t CheckpointConfig::countOr(const std::string &name, int64_t otherwise) {
  const Json *value = find(name);
  return !value ? otherwise : value->is_number_integer() && *value == 0 ? 0 : integer(name);
}

double CheckpointConfig::realIn(const Json &value, const std::string &name) {
  if (value.is_number() && std::isfinite(value.get<double>()))
    return value.get<double>();
  refuse("'{}{}' is {}; it must be a number", prefix, name, text(name));
  return 1;
}

double CheckpointConfig::realOr(const std::string &name, double otherwise) {
  const Json *value = find(name);
  return value ? realIn(*value, name) : otherwise;
}

double CheckpointConfig::positive(const std::string &name) {
  const double value = realOr(name, 0);
  if (value > 0)
    return value;
  refuse("'{}{}' is {}; it must be a number above 0", prefix, name, text(name));
  return 1;
}

double CheckpointConfig::positiveOr(const std::string &name, double otherwise) {
  return find(name) ? positive(name) : otherwise;
}

bool CheckpointConfig::flagOr(const std::string &name, bool otherwise) {
  const Json *value = find(name);
  if (!value || value->is_boolean())
    return value ? value->get<bool>() : otherwise;
  refuse("'{}{}' is {}; it must be true or false", prefix, name, text(name));
  return otherwise;
}

std::string CheckpointConfig::textOr(const std::string &name, const std::string &otherwise) {
  const Json *value = find(name);
  if (!value || value->is_string())
    return value ? value->get<std::string>() : otherwise;
  refuse("'{}{}' is {}; it must be a text", prefix, name, text(name));
  return otherwise;
}

std::vector<std::string> CheckpointConfig::textsOr(const std::string &name, std::vector<std::string> otherwise) {
  const Json *value = find(name);
  if (!value)
    return otherwise;
  std::vector<std::string> texts;
  for (const Json &entry : value->is_array() ? *value : Json::array())
    if (entry.is_string())
      texts.push_back(entry);
  if (!value->is_array() || texts.size() != value->size())
    refuse("'{}{}' must be a list of texts", prefix, name);
  return texts;
}

std::vector<int64_t> CheckpointConfig::integersOr(const std::string &name, std::vector<int64_t> otherwise) {
  const Json *value = find(name);
  if (!value)
    return otherwise;
  std::vector<int64_t> integers;
  for (const Json &entry : value->is_array() ? *value : Json::array())
    if (entry.is_number_integer() && entry >= 0 && entry <= kLargest)
      integers.push_back(entry);
  if (!value->is_array() || integers.size() != value->size())
    refuse("'{}{}' must be a list of integers from 0", prefix, name);
  return integers;
}

std::vector<double> CheckpointConfig::positives(const std::string &name, size_t count) {
  const Json *value = find(name);
  std::vector<double> reals;
  if (value && value->is_array())
    for (const Json &entry : *value)
      if (entry.is_number() && std::isfinite(entry.get<double>()) && entry.get<double>() > 0)
        reals.push_back(entry);
  if (!value || reals.size() != count || value->size() != count)
    refuse("'{}{}' must be a list of {} numbers above 0", prefix, name, count);
  reals.resize(count, 1);
  return reals;
}

CheckpointConfig CheckpointConfig::inner(const std::string &name) {
  CheckpointConfig config = *this;
  config.prefix = prefix + name + ".";
  config.json = Json::object();
  if (!has(name))
    return config;
  if (json[name].is_object())
    config.json = json[name];
  else
    refuse("'{}{}' is {}; it must be an object", prefix, name, text(name));
  return config;
}

void CheckpointConfig::require(bool holds, const std::string &name, const std::string &supported) {
  state->required[prefix + name] = supported;
  if (!holds)
    refuse("'{}{}' is {}; supported: {}", prefix, name, text(name), supported);
}

} // namespace mt::models
