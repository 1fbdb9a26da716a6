#include "compiler/pipeline/Adapters.h"

#include "compiler/pipeline/Parameters.h"

#include "passes/nn/Adapters.h"
#include "runtime/base/PatternSettings.h"
#include "runtime/plan/ParameterGroups.h"

#include <charconv>
#include <cmath>
#include <set>

using namespace mlir;

namespace mt::pipeline {
namespace {

constexpr int64_t kMostRank = 65536;

template <typename Number> bool read(const std::string &text, Number &number) {
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

Status take(const std::string &key, const std::string &value, AdapterRequest &request) {
  auto must = [&](bool holds, std::string_view what) {
    return holds ? Status() : fail("{}={}: must be {}", key, value, what);
  };
  if (key == "rank")
    return must(read(value, request.rank) && request.rank >= 1 && request.rank <= kMostRank,
                "a whole number of at least 1");
  if (key == "alpha")
    return must(read(value, request.alpha) && std::isfinite(request.alpha) && request.alpha > 0, "a positive number");
  if (key == "dropout")
    return must(read(value, request.dropout) && request.dropout >= 0 && request.dropout < 1,
                "a number from 0 to below 1");
  if (key == "seed")
    return must(read(value, request.seed) && request.seed >= 0, "a whole number, not negative");
  return fail("'{}={}': the keys are rank, alpha, dropout and seed", key, value);
}

Result<std::vector<AdapterRequest>> parseAll(const std::vector<std::string> &texts) {
  std::vector<AdapterRequest> requests;
  for (const std::string &text : texts) {
    Result<AdapterRequest> request = parseAdapterRequest(text);
    if (!request)
      return request.status().within("--lora " + text);
    requests.push_back(std::move(*request));
  }
  return requests;
}

/// The exported module's name for a parameter, else its own, without the last part where that says that it is a weight.
std::string moduleOf(const plan::Parameter &parameter) {
  std::string name = parameter.name;
  for (const plan::Alias &alias : parameter.aliases)
    if (alias.kind == plan::Alias::Kind::module) {
      name = alias.name;
      break;
    }
  constexpr std::string_view kWeight = ".weight";
  return name.ends_with(kWeight) ? name.substr(0, name.size() - kWeight.size()) : name;
}

} // namespace

Result<AdapterRequest> parseAdapterRequest(const std::string &text) {
  MT_ASSIGN(const PatternSettings parsed,
            parsePatternSettings(text, "*_proj.weight:rank=16,alpha=32", "rank, alpha, dropout and seed"));
  AdapterRequest request{text, parsed.pattern};
  for (const auto &[key, value] : parsed.settings)
    MT_TRY(take(key, value, request));
  if (request.rank == 0)
    return fail("it does not say the rank: '{}:rank=16'", request.pattern);
  if (request.alpha == 0)
    request.alpha = static_cast<double>(request.rank);
  return request;
}

Status requestAdapters(ModuleOp module, const std::vector<std::string> &texts,
                       const std::vector<plan::Parameter> &parameters) {
  MT_ASSIGN(const std::vector<AdapterRequest> requests, parseAll(texts));
  const std::vector<ParameterArgument> arguments = parametersOf(module);
  std::vector<const AdapterRequest *> chosen(arguments.size(), nullptr);
  for (const AdapterRequest &request : requests) {
    bool any = false;
    for (size_t p = 0; p < arguments.size(); ++p) {
      if (!arguments[p].isFloat() || !plan::hasName(parameters[p], request.pattern))
        continue;
      any = true;
      if (arguments[p].trained)
        return fail("--lora {}: '{}' is trained itself, by --train: leave it out of the one or the other", request.text,
                    arguments[p].name);
      chosen[p] = &request;
    }
    if (!any)
      return fail("--lora {}: no parameter of the model has such a name", request.text);
  }
  std::vector<passes::AdapterEntry> entries;
  for (size_t p = 0; p < arguments.size(); ++p)
    if (const AdapterRequest *request = chosen[p]; request && arguments[p].type.getRank() == 2)
      entries.push_back({arguments[p].name, moduleOf(parameters[p]), request->rank, request->seed,
                         request->alpha / static_cast<double>(request->rank), request->dropout});
  passes::stateAdapters(module, entries);
  return {};
}

Status checkAdapters(ModuleOp module, const std::vector<std::string> &texts,
                     const std::vector<plan::Parameter> &parameters) {
  MT_ASSIGN(const std::vector<AdapterRequest> requests, parseAll(texts));
  std::set<std::string> adapted;
  for (const passes::AdapterEntry &entry : passes::adaptersOf(module))
    adapted.insert(entry.parameter);
  const std::vector<ParameterArgument> arguments = parametersOf(module);
  std::vector<std::string> weights = productWeights(module);
  std::erase_if(weights, [&](const std::string &name) { // adapters' own
    return std::ranges::none_of(parameters, [&](const plan::Parameter &each) { return each.name == name; });
  });
  for (const AdapterRequest &request : requests) {
    std::vector<std::string> left;
    bool any = false;
    for (size_t p = 0; p < parameters.size(); ++p)
      if (plan::hasName(parameters[p], request.pattern)) {
        any |= adapted.contains(parameters[p].name);
        if (!adapted.contains(parameters[p].name) && arguments[p].type.getRank() >= 2)
          left.push_back(parameters[p].name);
      }
    if (!any)
      return fail("--lora {}: of what has such a name nothing is a matrix that a product takes as it is{}",
                  request.text, weights.empty() ? "" : fmt::format("; those are {}", listOf(weights)));
    if (!left.empty())
      module.emitRemark() << "--lora " << request.text << ": without an adapter stay " << listOf(left)
                          << ", which no product takes as they are, or which are the head";
  }
  return {};
}

} // namespace mt::pipeline
