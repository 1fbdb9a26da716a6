#include "runtime/train/Aliases.h"

#include "runtime/plan/Dump.h"

namespace mt::train {
namespace {

using nlohmann::json;
using plan::Alias;

bool isAlias(const json &alias) {
  auto has = [&](const char *key) { return alias.contains(key); };
  return alias.is_object() && has("kind") && has("name") && has("transposed") && alias["name"].is_string() &&
         alias["transposed"].is_boolean() &&
         (alias["kind"] == name(Alias::Kind::initializer) || alias["kind"] == name(Alias::Kind::module));
}

} // namespace

json aliasesOf(const plan::Parameter &parameter) {
  json list = json::array();
  for (const Alias &alias : parameter.aliases)
    list.push_back({{"kind", name(alias.kind)}, {"name", alias.name}, {"transposed", alias.transposed}});
  return list;
}

json aliasesOf(const plan::Plan &plan) {
  json all = json::object();
  for (const plan::Parameter &parameter : plan.parameters)
    if (parameter.trainable && !parameter.aliases.empty())
      all[parameter.name] = aliasesOf(parameter);
  return all;
}

Result<std::map<std::string, std::vector<Alias>>> readAliases(const json &aliases) {
  std::map<std::string, std::vector<Alias>> all;
  if (aliases.is_null())
    return all;
  if (!aliases.is_object())
    return fail("its aliases are no object");
  for (const auto &[parameter, list] : aliases.items())
    for (const json &alias : list) {
      if (!isAlias(alias))
        return fail("an alias of parameter '{}' is none", parameter);
      all[parameter].push_back({alias["kind"] == name(Alias::Kind::module) ? Alias::Kind::module : Alias::Kind::initializer,
                                alias["name"].get<std::string>(), alias["transposed"].get<bool>()});
    }
  return all;
}

} // namespace mt::train
