// Which names the blocks of a template find undefined until they set them: Jinja decides for a whole block where a name
// that it sets comes from. What a block reads before it sets it, or what blocks around it name, comes from outside; a
// name that it sets first hides one of the template's variables from the block's beginning on.
#ifndef MT_RUNTIME_JINJA_NAMES_H
#define MT_RUNTIME_JINJA_NAMES_H

#include <deque>
#include <map>
#include <set>
#include <string>

namespace mt::jinja {

struct Body;

class Names {
public:
  struct Block {
    Body *body = nullptr; ///< where its hidden names go; null: nowhere
    Block *around = nullptr;
    std::map<std::string, bool> hides; ///< of each name, whether it is set before it is read
    std::set<std::string> given;       ///< what has been set so far
  };

  Block *open(Body *body, Block *around) {
    return &blocks.emplace_back(Block{.body = body, .around = around, .hides = {}, .given = {}});
  }

  static void read(Block &block, const std::string &name) { block.hides.try_emplace(name, false); }
  static void set(Block &block, const std::string &name);
  /// A name that has a value from the block's beginning on.
  static void parameter(Block &block, const std::string &name);
  /// After an if, before which so much had been given: what only its branches set comes from outside.
  static void leaveIf(Block &block, const std::set<std::string> &before);

  /// Tells the bodies, when the whole template is read.
  void resolve() const;

private:
  std::deque<Block> blocks;
};

} // namespace mt::jinja
#endif
