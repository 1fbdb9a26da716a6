#include "runtime/jinja/Names.h"

#include "runtime/jinja/Syntax.h"

namespace mt::jinja {

void Names::set(Block &block, const std::string &name) {
  block.hides.try_emplace(name, true);
  block.given.insert(name);
}

void Names::parameter(Block &block, const std::string &name) {
  block.hides.try_emplace(name, false);
  block.given.insert(name);
}

void Names::leaveIf(Block &block, const std::set<std::string> &before) {
  for (const std::string &name : block.given)
    if (!before.contains(name))
      block.hides[name] = false;
}

void Names::resolve() const {
  for (const Block &block : blocks)
    for (const auto &[name, hides] : block.hides) {
      bool outside = !hides || !block.body;
      for (const Block *one = block.around; one && !outside; one = one->around)
        outside = one->hides.contains(name);
      if (!outside)
        block.body->hidden.push_back(name);
    }
}

} // namespace mt::jinja
