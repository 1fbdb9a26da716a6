// Under which names a checkpoint's tensors stand elsewhere: in the model's file, and in the module that it was exported
// from. Checkpoints hold a tensor once, under its parameter's name; whoever writes weights writes all names.
#ifndef MT_RUNTIME_TRAIN_ALIASES_H
#define MT_RUNTIME_TRAIN_ALIASES_H

#include "runtime/base/Status.h"
#include "runtime/plan/Program.h"

#include <nlohmann/json.hpp>

#include <map>

namespace mt::train {

/// The aliases of the plan's trained parameters, as a checkpoint's metadata hold them:
/// {parameter: [{"kind": "initializer" or "module", "name": ..., "transposed": ...}, ...], ...}.
nlohmann::json aliasesOf(const plan::Plan &plan);
/// Those of one parameter, a list.
nlohmann::json aliasesOf(const plan::Parameter &parameter);

/// By parameter name; of null, none. Errors: it is nothing that aliasesOf() returns.
Result<std::map<std::string, std::vector<plan::Alias>>> readAliases(const nlohmann::json &aliases);

} // namespace mt::train
#endif
