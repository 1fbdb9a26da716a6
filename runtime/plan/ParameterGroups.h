// Groups of parameters, as users say them on either command line: which parameters, and what is different for them.
#ifndef MT_RUNTIME_PLAN_PARAMETER_GROUPS_H
#define MT_RUNTIME_PLAN_PARAMETER_GROUPS_H

#include "runtime/base/Status.h"
#include "runtime/plan/Program.h"

#include <map>
#include <set>

namespace mt::plan {

/// Whether a glob is of one of a parameter's names: the initializer's, or the exported module's.
bool hasName(const Parameter &parameter, const std::string &pattern);

/// `PATTERN:KEY=VALUE,...` with a glob over the names of parameters and the keys `lr`, `decay`, those of hyperparameters
/// (kernels/Optimizers.h) and, where a plan is made, `optimizer`.
struct ParameterGroup {
  std::string text, pattern;
  std::string optimizer;                           ///< empty: as without the group
  std::map<std::string, double, std::less<>> values; ///< by key

  bool holds(const Parameter &parameter) const { return hasName(parameter, pattern); }
};

/// Errors say what of the text is wrong, and what would do; those of several name the text, too.
Result<ParameterGroup> parseGroup(const std::string &text);
Result<std::vector<ParameterGroup>> parseGroups(const std::vector<std::string> &texts);

/// Whether each hyperparameter that a group says is one of these optimizers, those of the parameters that it holds.
Status checkKeys(const ParameterGroup &group, const std::set<std::string> &optimizers);

/// "adamw", or with groups of others "adamw, and sgd for *.bias"; and whether they average.
std::string describeOptimizers(const Settings &settings);

} // namespace mt::plan
#endif
